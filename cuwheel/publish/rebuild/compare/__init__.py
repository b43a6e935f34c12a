"""Comparison of two wheels: what differs, down to one kernel's instructions, and the cause."""

__all__ = ["differences", "report", "wheel"]
