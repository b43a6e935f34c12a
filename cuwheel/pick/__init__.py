"""Which wheel of a package fits a machine, and which is the nearest where none does.

It reads indexes and METADATA; no wheel is downloaded. Called by: the sessions `pick` and
`install`. Face: `session.pick_session`, `choice.choose`.
"""
