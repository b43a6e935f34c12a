"""The memory gate: compiles wait until the memory that they will take is free.

Scripts for a short start, with the standard library of Python 3.9 only. docs/adr/0017.
"""

__all__ = ["child", "event_log", "gate"]
