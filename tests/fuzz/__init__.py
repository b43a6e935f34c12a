"""Changed files for every reader of others' bytes: `nox -s fuzz`, docs/adr/0031."""
