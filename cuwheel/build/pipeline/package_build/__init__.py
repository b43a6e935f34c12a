"""The package's own build: commands, requirements, progress, failures, trials of single files."""

__all__ = [
    "build_commands",
    "outcome",
    "progress",
    "requirements",
    "trial",
    "unpinned_programs",
]
