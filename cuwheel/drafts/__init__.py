"""A recipe's first draft, from a package's source: what can be read there, and what can't.

Called by the session `new`, and by `updates`, which compares two sources. Face:
`session.draft_recipe`, `upstream`, `readers`.
"""
