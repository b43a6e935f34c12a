"""conda packages without conda: environment.yml, conda-lock.yml, solving, installing."""

__all__ = ["environment_file", "install", "lock_file", "mirrors", "solve", "write"]
