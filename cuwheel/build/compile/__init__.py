"""The compilers of a build: the toolkit's view, the launcher, the memory gate and the cache."""

__all__ = [
    "build_mounts",
    "cache",
    "canary",
    "environment",
    "events",
    "framework_headers",
    "launcher_setup",
    "link_flags",
    "memory",
    "seconds",
    "torch_extension",
]
