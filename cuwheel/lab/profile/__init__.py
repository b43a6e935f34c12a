"""Profiles of builds: times and memory of compiles as a picture, a trace and a table."""

__all__ = ["misses", "report"]
