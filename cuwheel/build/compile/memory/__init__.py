"""The engine's side of the memory gate: which programs of all builds may start. docs/adr/0017."""

__all__ = ["peaks", "service"]
