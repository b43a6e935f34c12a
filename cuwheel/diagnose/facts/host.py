"""What kind of machine this is: system, libraries, resources, container."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from cuwheel import limits
from cuwheel.standalone.memory_gate import free_memory
from cuwheel.system import machine
from cuwheel.system.versions import version_key
from cuwheel.system.whole_files import read_bytes, read_text

_ETC_RELEASE = Path("/etc/os-release")
_VERSION = Path("/proc/version")
_CGROUP = Path("/proc/1/cgroup")
_MARKS = ((Path("/.dockerenv"), "Docker"), (Path("/run/.containerenv"), "Podman"))
_CONTAINER = re.compile(r"docker|kubepods|containerd|libpod|lxc|crio")
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
_GLIBCXX = re.compile(rb"GLIBCXX_(3\.4(?:\.\d+)?)\0")


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """The machine around the GPUs.

    Attributes:
        system: of /etc/os-release, `Debian GNU/Linux 12 (bookworm)`.
        kernel: `6.1.0-18-amd64`.
        architecture: `x86_64`.
        glibc: `2.36`; empty on a system with another C library.
        glibcxx: the newest symbol version of the system's libstdc++, `3.4.30`.
        container: its kind, empty outside.
        is_wsl: Linux on Windows.
        memory, free_memory: bytes, limits of containers counted.
        cores: those that may be used.
        free_disk: bytes free where a build would work.
        shared_memory: bytes of /dev/shm.
        has_device_files: /dev/nvidia* are there.
    """

    system: str
    kernel: str
    architecture: str
    glibc: str
    glibcxx: str
    container: str
    is_wsl: bool
    memory: int
    free_memory: int
    cores: int
    free_disk: int
    shared_memory: int
    has_device_files: bool


def read_host_facts(folder: Path) -> HostFacts:
    """Read it from the system's files.

    Args:
        folder: whose disk counts.
    """
    memory, free = _memory()
    shared = os.statvfs("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - asked
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read(_ETC_RELEASE), re.MULTILINE)
    libraries = (Path(folder, "libstdc++.so.6") for folder in _LIBRARY_FOLDERS)
    libstdcxx = next(filter(Path.exists, libraries), None)
    return HostFacts(
        system=system[1] if system else "Linux",
        kernel=platform.release(),
        architecture=platform.machine(),
        glibc=_glibc(),
        glibcxx=newest_glibcxx(libstdcxx) if libstdcxx else "",
        container=_container(),
        is_wsl="microsoft" in _read(_VERSION).lower(),
        memory=memory,
        free_memory=free,
        cores=machine.usable_cores(),
        free_disk=machine.free_disk(folder),
        shared_memory=shared.f_blocks * shared.f_frsize if shared else 0,
        has_device_files=any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists(),
    )


def newest_glibcxx(library: Path) -> str:
    """The newest symbol version of a libstdc++, `3.4.30`; empty where it can't be read."""
    try:
        found = {
            version.decode()
            for version in _GLIBCXX.findall(read_bytes(library, limit=limits.LIBRARY))
        }
    except OSError:
        return ""
    return max(found, key=version_key, default="")


def _memory() -> tuple[int, int]:
    """All of it and what is free, at the level that has the least; 0 where nobody says."""
    try:
        levels = free_memory.read_memory().levels
    except OSError:
        return 0, 0
    total = min(level.total + level.reserve for level in levels)
    return total, max(0, min(level.free + level.reserve for level in levels))


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):
        return ""


def _container() -> str:
    for mark, name in _MARKS:
        if mark.exists():
            return name
    found = _CONTAINER.search(_read(_CGROUP))
    return found[0] if found else ""


def _read(path: Path) -> str:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""
