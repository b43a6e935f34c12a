"""A release: new wheels under a date's tag, with notes, provenance and logs, published for good.

It is complete or not there, and what is published is never changed.

Called by: the session of that name. Face: `session.release`; `record.read_releases` gives the
releases of a folder.
"""
