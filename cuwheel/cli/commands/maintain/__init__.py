"""Sessions that maintain a project: its locks, recipes, caches, indexes and releases."""
