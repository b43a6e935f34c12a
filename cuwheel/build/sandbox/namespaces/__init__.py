"""Linux namespaces by system calls: the sandbox, and hidden files for the load proof."""

__all__ = ["enter"]
