"""The rules for a wheel's Python code: what an import runs, needs, opens and changes."""

__all__ = ["code", "projects", "releases", "values"]
