"""Commands that the console script `cuwheel` has and nox doesn't."""
