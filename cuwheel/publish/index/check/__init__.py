"""Check of any package index against its specification, its files and an earlier snapshot."""

__all__ = ["report", "rules", "walk"]
