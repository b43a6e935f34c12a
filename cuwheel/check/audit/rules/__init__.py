"""The rules of the audit: of the archive, of its libraries and of their suppliers."""

__all__ = [
    "claims",
    "conflicts",
    "library",
    "loads",
    "markers",
    "members",
    "metadata",
    "python",
    "supply",
    "symbols",
]
