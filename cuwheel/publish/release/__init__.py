"""A release: new wheels under a date's tag, with notes, provenance and logs, published for good.

It is complete or not there, and published files are never changed.
"""

__all__ = ["evidence", "plan", "release", "upload"]
