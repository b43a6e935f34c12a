"""Installation of a wheel into an environment: chosen, checked, installed, tried, or undone."""

__all__ = ["install"]
