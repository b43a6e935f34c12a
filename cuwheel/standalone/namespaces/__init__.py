"""Linux namespaces by system calls: the sandbox, and what the load proof hides."""
