"""What this machine can give to a build: cores, limits of its cgroup included, and disk; and which
GPU driver it has. Memory is `standalone/memory_gate/free_memory.py`'s matter.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from pathlib import Path

from cuwheel.system.whole_files import read_text

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")

# The kernel's own names for what NVIDIA's module says of itself. A container sees its host's.
_DRIVER_MODULE = Path("/sys/module/nvidia/version")
_DRIVER_REPORT = Path("/proc/driver/nvidia/version")
_DRIVER_VERSION = re.compile(r"\b\d{3,}\.\d+(\.\d+)?\b")  # 535.104.05


def usable_cores(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """Cores that this process may use: its CPU mask, and the quota of its cgroup rounded down.

    In a job of Slurm also what the job asked for (`SLURM_CPUS_PER_TASK`, sbatch(1)): many clusters
    don't hold their jobs to that.

    Args:
        cgroups: where the cgroup file system is mounted.
        own: the file that says which cgroup this process is in.
    """
    cores = float(len(os.sched_getaffinity(0)))
    asked = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if asked.isdigit():
        cores = min(cores, int(asked))
    for folder in _folders(cgroups, own):
        quota = _read(folder / "cpu.max").split()
        if len(quota) == 2 and quota[0].isdigit():  # noqa: PLR2004 - "quota period"
            cores = min(cores, int(quota[0]) / int(quota[1]))
        quota_us = _read(folder / "cpu.cfs_quota_us")
        if quota_us.isdigit():
            cores = min(cores, int(quota_us) / int(_read(folder / "cpu.cfs_period_us") or 100_000))
    return max(1, int(cores))


def free_disk(folder: Path) -> int:
    """Bytes free on the disk that holds a folder, which need not be there yet."""
    return shutil.disk_usage(_nearest(folder)).free


def lacks_inodes(folder: Path) -> bool:
    """Whether the disk that holds a folder has no inode left for another file, however small."""
    found = os.statvfs(_nearest(folder))
    return found.f_files > 0 and found.f_favail == 0  # some file systems count none


def _nearest(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def driver_version(module: Path = _DRIVER_MODULE, report: Path = _DRIVER_REPORT) -> str | None:
    """The version of NVIDIA's driver that is loaded; None on a machine without.

    Args:
        module: the file in which the kernel gives the module's version.
        report: the driver's own file, which names it in a sentence.
    """
    for path in (module, report):
        if found := _DRIVER_VERSION.search(_read(path)):
            return found[0]
    return None


def has_network() -> bool:
    """Whether the kernel knows a way to any other machine; nothing is sent to find out.

    A datagram socket's connect(2) only looks for a route. The addresses are those that RFC 5737 and
    RFC 3849 keep for documentation: they are no machine's, and go where all others go.
    """
    for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((address, 9))
            return True
    return False


def _folders(cgroups: Path, own: Path) -> list[Path]:
    """This process's cgroup folders and all above them: each can hold a limit."""
    found = []
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        tops = [cgroups / name for name in controllers.split(",")] if controllers else [cgroups]
        for top in tops:
            here = top / path.lstrip("/")
            found += [here, *(up for up in here.parents if up == top or top in up.parents)]
    return found


def _read(path: Path) -> str:
    try:
        return read_text(path).strip()
    except OSError:
        return ""
