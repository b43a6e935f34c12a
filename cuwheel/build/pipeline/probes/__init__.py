"""Scripts that a build's interpreter runs by path."""
