"""The load proof: a wheel is imported in an environment that holds only what it requires."""

__all__ = ["environment", "loaded_libraries", "packages", "probe", "top_modules"]
