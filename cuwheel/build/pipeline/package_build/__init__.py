"""The package's own build: commands, requirements, progress, failures, trials of single files."""

__all__ = [
    "build_commands",
    "outcome",
    "progress",
    "requirements",
    "shard_plan",
    "shard_run",
    "trial",
    "unpinned_programs",
]
