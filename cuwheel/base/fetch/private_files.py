"""Copies of the files in an environment that an installer has linked from its cache.

Writing into a file with several names changes it under all of them: a build that damages its
environment would damage the installer's cache, and with it every environment made from there later.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from cuwheel.base.system.files import PART
from cuwheel.base.system.regular_files import open_file

_FICLONE = 0x40049409  # ioctl_ficlone(2): a copy that shares its blocks until one is written to
_THREADS = 4  # copying releases the interpreter lock


def make_private(folder: Path, twins: Mapping[str, Path] = MappingProxyType({})) -> None:
    """Replace each file of a folder that has other names by a copy: of equal mode and time.

    Costs neither time nor space where the file system can share blocks (Btrfs, XFS, bcachefs).

    Args:
        twins: by path below the folder, a file of equal content that nobody writes into: elsewhere
            a file is linked to it, where it has the same mode, in place of a copy.
    """

    def replace(path: str) -> None:
        _replace_by_copy(path, twins.get(path.removeprefix(f"{folder}{os.sep}")))

    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(replace, _shared_files(folder)):
            pass  # raises the exception of a thread


def shares_blocks(folder: Path) -> bool:
    """Return True if copies in a folder cost no space; False too where nothing can be written."""
    try:
        with (
            tempfile.TemporaryFile(dir=folder) as source,
            tempfile.TemporaryFile(dir=folder) as target,
        ):
            fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
    except OSError:
        return False
    return True


def _shared_files(folder: Path) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - of twenty thousand
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                yield path


def _replace_by_copy(path: str, twin: Path | None) -> None:
    aside = f"{path}{PART}"
    with open_file(path) as source, open(aside, "xb", buffering=0) as target:  # noqa: PTH123 - of twenty thousand
        status = os.fstat(source.fileno())
        try:
            fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
        except OSError:
            if twin and _replace_by_link(path, aside, twin, status):
                return
            done = 0
            while sent := os.sendfile(target.fileno(), source.fileno(), done, 1 << 30):
                done += sent
        os.fchmod(target.fileno(), stat.S_IMODE(status.st_mode))
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    os.rename(aside, path)  # noqa: PTH104 - texts


def _replace_by_link(path: str, aside: str, twin: Path, status: os.stat_result) -> bool:
    """Return False where a file can't be linked: another disk, owner or mode, too many names."""
    linked = f"{path}.linked{PART}"
    try:
        os.link(twin, linked, follow_symlinks=False)
    except OSError:
        return False
    if os.lstat(linked).st_mode != status.st_mode:
        os.unlink(linked)  # noqa: PTH108 - texts
        return False
    os.rename(linked, path)  # noqa: PTH104 - texts
    os.unlink(aside)  # noqa: PTH108 - texts
    return True
