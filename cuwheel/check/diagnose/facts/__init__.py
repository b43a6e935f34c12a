"""Facts of a machine and an environment: driver, GPUs, toolkits, interpreters, libraries."""

__all__ = [
    "builds",
    "environment",
    "gpu_packages",
    "imports",
    "installed_files",
    "installer_settings",
    "isolation",
    "library_pairs",
    "machine",
    "probe",
    "shadows",
    "startup",
    "variables",
]
