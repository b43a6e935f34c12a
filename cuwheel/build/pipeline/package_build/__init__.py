"""The package's own build: its requirements, progress, failures, and what it used unpinned."""

__all__ = ["outcome", "progress", "requirements", "unpinned_programs"]
