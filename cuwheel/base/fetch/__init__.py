"""Downloads into the cache, by hash: web, git, the mirror; and a client of package indexes."""

__all__ = [
    "download",
    "git",
    "indexes",
    "pip_settings",
    "private_files",
    "remote_file",
    "retry",
    "store",
    "urls",
    "web",
]
