"""What to build: recipe, target, catalogue, locks of recipes, and the nox sessions that follow.

Called by everyone; noxfile.py imports it, so all but the checks needs the standard library alone.
Face: `recipe`, `source`, `link`, `recipe_check`, `recipe_lock`, `target`, `catalogue`,
`nox_sessions`.
"""
