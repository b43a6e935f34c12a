"""The last steps on a built wheel: repair, smoke test."""

__all__ = ["repair", "smoke"]
