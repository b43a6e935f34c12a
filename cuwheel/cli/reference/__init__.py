"""Pages that are written from the code: options, recipe fields, toolkits, TROUBLESHOOTING.md."""
