"""Resources of this machine: cores, disk, network, GPU driver; memory: `free_memory.py`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.free_memory import cgroup_folders
from cuwheel.base.system.regular_files import read_text

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")

# Files of NVIDIA's kernel module. A container sees its host's.
_DRIVER_MODULE = Path("/sys/module/nvidia/version")
_DRIVER_REPORT = Path("/proc/driver/nvidia/version")
_DRIVER_VERSION = re.compile(r"\b\d{3,}\.\d+(\.\d+)?\b")  # 535.104.05


def usable_cores(
    environ: Mapping[str, str], cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP
) -> int:
    """Return the cores that this process may use, by CPU mask and cgroup quota, rounded down.

    In a Slurm job, `SLURM_CPUS_PER_TASK` (sbatch(1)) is a limit too: many clusters don't enforce
    it.
    """
    cores = float(len(os.sched_getaffinity(0)))
    allotted = environ.get("SLURM_CPUS_PER_TASK", "")
    if allotted.isdigit():
        cores = min(cores, int(allotted))
    for folder in map(Path, cgroup_folders(_read(own), str(cgroups), "cpu")):
        quota = _read(folder / "cpu.max").split()
        if len(quota) == 2 and quota[0].isdigit():  # noqa: PLR2004 - "quota period"
            cores = min(cores, int(quota[0]) / int(quota[1]))
        quota_us = _read(folder / "cpu.cfs_quota_us")
        if quota_us.isdigit():
            cores = min(cores, int(quota_us) / int(_read(folder / "cpu.cfs_period_us") or 100_000))
    return max(1, int(cores))


def free_disk(folder: Path) -> int:
    """Return the bytes free on the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(nearest_folder(folder)).free


def lacks_inodes(folder: Path) -> bool:
    """Return True if the disk of a folder has no inode left for another file."""
    status = os.statvfs(nearest_folder(folder))
    return status.f_files > 0 and status.f_favail == 0  # some file systems count none


def nearest_folder(folder: Path) -> Path:
    """Return a folder, or the nearest above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def driver_version(module: Path = _DRIVER_MODULE, report: Path = _DRIVER_REPORT) -> str | None:
    """Return the version of the loaded NVIDIA driver; None on a machine without."""
    for path in (module, report):
        if match := _DRIVER_VERSION.search(_read(path)):
            return match[0]
    return None


def has_network() -> bool:
    """Return True if the kernel has a route to other machines; nothing is sent.

    A datagram socket's connect(2) only looks for a route. The addresses are those that RFC 5737 and
    RFC 3849 reserve for documentation: they belong to no machine and take the default route.
    """
    for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return True
    return False


def _read(path: Path) -> str:
    try:
        return read_text(path).strip()
    except OSError:
        return ""
