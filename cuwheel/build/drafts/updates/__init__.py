"""Updates of what recipes pin: which are newer, and the change to a recipe that takes one over."""

__all__ = ["bump", "outdated", "torch_symbols"]
