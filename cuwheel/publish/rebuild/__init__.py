"""Sessions `verify` and `rebuild`: wheels built again, compared, recorded, and signed for.

`compare/` finds differences down to the kernel; `attest/` makes and checks signed statements.
"""

__all__ = ["attest", "builds", "documents", "published", "rebuild", "verify"]
