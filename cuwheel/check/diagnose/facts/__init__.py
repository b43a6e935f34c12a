"""Facts of a machine and an environment: driver, GPUs, toolkits, interpreters, libraries."""

__all__ = [
    "environment",
    "gpu_packages",
    "imports",
    "installed_files",
    "machine",
    "probe",
    "startup",
    "variables",
]
