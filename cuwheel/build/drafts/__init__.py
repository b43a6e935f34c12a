"""Drafts of recipes, read from a package's source, and recipes taken to newer releases."""

__all__ = ["new", "updates", "upstream"]
