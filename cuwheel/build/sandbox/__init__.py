"""Sandboxes in which a package's code sees only its own files, and containers for whole builds."""

__all__ = ["backends", "confinement", "containers", "mounts", "path_map", "unix_server"]
