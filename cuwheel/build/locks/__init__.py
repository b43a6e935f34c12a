"""The project's locks: listed, written, checked, and mirrored with all files that they name."""

__all__ = ["framework_fit", "lock_jobs", "mirror", "mirror_folder", "resolve", "tool_environment"]
