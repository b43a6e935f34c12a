"""The rules of the audit: of the archive, of its libraries and of their suppliers."""

__all__ = [
    "contradictions",
    "library",
    "loads",
    "markers",
    "members",
    "metadata",
    "python",
    "supply",
    "symbols",
]
