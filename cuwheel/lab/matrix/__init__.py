"""The matrix of all wheels that the recipes allow: their states, and builds of the missing ones."""

__all__ = ["building", "github", "slurm_executor", "state", "table"]
