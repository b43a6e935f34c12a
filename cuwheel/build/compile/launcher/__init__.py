"""The compiler launcher, before every compiler of a build: command lines that are reproducible.

Scripts for a short start, with the standard library of Python 3.9 only. docs/adr/0015.
"""

__all__ = ["own_archs", "standin"]
