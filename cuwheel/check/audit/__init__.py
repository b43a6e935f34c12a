"""The audit of any wheel: its content, the suppliers of its needs, and the rules that it breaks."""

__all__ = ["audit", "case", "findings", "remote", "tags", "verdict"]
