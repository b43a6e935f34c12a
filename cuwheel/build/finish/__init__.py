"""The last steps on a built wheel: repair, smoke test; a wheel for fewer GPUs."""

__all__ = ["repair", "slim", "slim_load", "smoke"]
