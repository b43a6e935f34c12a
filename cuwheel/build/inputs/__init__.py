"""A package's source: pinned, fetched, unpacked, copied, patched."""

__all__ = [
    "archives",
    "checkouts",
    "identity",
    "locked_files",
    "patch_health",
    "patches",
    "pinned",
    "tree",
]
