"""CUDA homes, host compilers and Pythons: from wheels, from conda, from the machine."""

__all__ = [
    "conda",
    "conda_layout",
    "cross",
    "driver_stub",
    "from_pypi",
    "from_system",
    "host_compiler",
    "provide",
    "python_choice",
    "redist",
    "store",
    "system_programs",
]
