"""Build a target: its stages in order, the checks before them, the rebuild key, the records."""

__all__ = [
    "build_advice",
    "build_needs",
    "checks",
    "engine_code",
    "machine",
    "machine_checks",
    "package_build",
    "pipeline",
    "published",
    "rebuild_key",
    "run_state",
    "summary",
    "target_fit",
]
