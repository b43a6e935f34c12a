"""Rules that turn facts into verdicts: what is wrong, why, and what fixes it."""

__all__ = [
    "caches",
    "context",
    "driver",
    "elsewhere",
    "frameworks",
    "import_failures",
    "installed_files",
    "installer",
    "packages",
    "requirements",
    "variables",
]
