"""What to build: recipes, their targets and locks, and the nox sessions that follow from them.

noxfile.py imports it, so everything but the checks needs the standard library alone.
"""

__all__ = [
    "catalogue",
    "cells",
    "contract",
    "link",
    "nox_sessions",
    "platform",
    "recipe",
    "recipe_check",
    "recipe_lock",
    "source",
    "target",
]
