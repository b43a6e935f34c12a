"""Services of the operating system: processes, files, terminal, threads, limits of the machine."""

__all__ = [
    "cache_folder",
    "compilers",
    "console",
    "disks",
    "files",
    "folders",
    "gpu_lock",
    "machine",
    "output",
    "parallel",
    "process",
    "pythons",
    "quantities",
    "regular_files",
    "versions",
]
