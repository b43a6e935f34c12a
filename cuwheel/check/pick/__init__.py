"""The choice of packages' wheels for a machine, from indexes and METADATA without downloads."""

__all__ = [
    "choice",
    "contents",
    "declarations",
    "fit",
    "known_sources",
    "machine",
    "pick",
    "release_lines",
    "requirement_files",
    "stack",
    "stack_report",
    "tags",
]
