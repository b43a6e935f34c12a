"""CUDA homes, host compilers, Pythons: from wheels, conda, Debian packages, the machine."""

__all__ = [
    "conda",
    "cross",
    "debian",
    "driver_stub",
    "from_pypi",
    "from_system",
    "host_compiler",
    "provide",
    "provider_lock",
    "python_choice",
    "redist",
    "store",
    "system_programs",
]
