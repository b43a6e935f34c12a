"""CUDA homes, host compilers, Pythons: from wheels, conda, Debian packages, the machine."""

__all__ = [
    "conda",
    "cross",
    "cuda_home",
    "debian",
    "driver_stub",
    "from_conda",
    "from_debian",
    "from_pypi",
    "from_redist",
    "from_system",
    "host_compiler",
    "pinned_compiler",
    "provide",
    "python_choice",
    "redist",
    "store",
    "system_programs",
]
