"""A framework's new release tried with the recipes: lock, preflight, compiles of two files."""

__all__ = ["day_zero", "report", "verdict"]
