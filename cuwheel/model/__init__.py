"""What to build: recipe, target, catalogue, and the nox sessions that follow.

Called by everyone; noxfile.py imports it, so it needs the standard library alone. Face: `recipe`,
`target`, `catalogue`, `nox_sessions`.
"""
