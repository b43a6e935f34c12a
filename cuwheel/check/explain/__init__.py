"""The explanation of a failed build's log, by the failure catalogue `failures/*.yaml`."""

__all__ = ["catalogue", "compiler_error", "explain", "explanation", "torch_facts"]
