"""Repair: a built wheel made portable, with names, rpaths, requirements and bundled libraries."""

__all__ = ["contents", "links", "metadata", "tools"]
