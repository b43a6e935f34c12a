"""Scripts that the smoke test's interpreter runs by path."""
