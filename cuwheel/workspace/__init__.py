"""A run's folders and settings, and the records that stages leave each other.

Called by stages and pipeline. Face: `workspace.Workspace`, `records`, `problems.Problem`.
"""
