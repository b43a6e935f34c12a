"""The nightly cycle: update, diagnose, build what is due, smoke, perf, and a report."""

__all__ = ["cycle", "nightly"]
