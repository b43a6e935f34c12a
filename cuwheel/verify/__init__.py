"""The same bytes again? Rebuilt, compared, recorded.

Called by the session `verify`. Face: `session.verify`, `session.verify_against`, `record`. In it:
`compare/`, two wheels down to the kernel.
"""
