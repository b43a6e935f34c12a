"""From a recipe to a wheel."""
