"""The choice of a package's wheel for a machine, from indexes and METADATA without downloads."""

__all__ = ["choice", "contents", "declarations", "fit", "machine", "pick", "tags"]
