"""The choice of a package's wheel for a machine, from indexes and METADATA without downloads."""

__all__ = ["choice", "declarations", "fit", "machine", "pick", "tags"]
