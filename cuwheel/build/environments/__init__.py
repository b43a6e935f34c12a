"""Environments of Python packages: uv, locks with hashes, and the wheels of a lock that fit."""

__all__ = [
    "additions",
    "build_environment",
    "framework_release",
    "installed",
    "lock_file",
    "requirements",
    "uv",
    "wheel_selection",
]
