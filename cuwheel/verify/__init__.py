"""The same bytes again? Rebuilt, compared, recorded; somebody's wheel from its own provenance.

Called by the sessions `verify` and `rebuild`. Face: `session.verify`, `session.verify_against`,
`rebuilding.rebuild_published`, `record`. In it: `compare/`, two wheels down to the kernel.
"""
