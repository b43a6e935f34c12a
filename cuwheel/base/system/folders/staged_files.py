"""Many files that are renamed together, once all of them are synced to the disk.

To sync each file is to wait for the disk each time, and costs the kernel more than the writing;
one sync of the whole disk, syncfs(2), waits once for all of them: docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.regular_files import open_file

ASIDE = ".cuwheel-new"  # folder of files without their names yet
# Files that are synced one by one: builds may just have written gigabytes to the disk.
_FEW = 16
_SYNCFS_REPORTS = (5, 8)  # the Linux since which syncfs(2) reports failed writes


class StagedFiles:
    """Files of one folder that have temporary names."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._aside = f"{root}/{ASIDE}"
        self._numbers = itertools.count()
        self._names: dict[str, str] = {}

    @contextlib.contextmanager
    def new_file(self, name: str) -> Iterator[BinaryIO]:
        """Write a file that is renamed later, below the folder; threads may write several."""
        path = f"{self._aside}/{next(self._numbers)}"  # tens of thousands: no Path for each
        try:
            stream = open(path, "xb")  # noqa: PTH123, SIM115
        except FileNotFoundError:  # of the first file; others may not read incomplete ones
            Path(self._aside).mkdir(mode=0o700, exist_ok=True)
            stream = open(path, "xb")  # noqa: PTH123, SIM115
        with stream:
            os.fchmod(stream.fileno(), 0o644)
            yield stream
        self._names[path] = name

    def commit(self) -> None:
        """Rename all of them, in the order in which they were completed."""
        if not self._names:
            return
        sync_files(self._root, [*self._names])
        for path, name in self._names.items():
            os.replace(path, f"{self._root}/{name}")  # noqa: PTH105
        Path(self._aside).rmdir()


@contextlib.contextmanager
def staged_files(root: Path) -> Iterator[StagedFiles]:
    """Write files of a folder that are renamed when the block ends; none where it raises.

    The caller holds a lock of the folder: leftovers of a killed writer are removed.
    """
    remove_staged(root)
    staged = StagedFiles(root)
    try:
        yield staged
        staged.commit()
    except BaseException:
        remove_staged(root)
        raise


def has_staged(root: Path) -> bool:
    """Return True if files of a folder are being written, or were left by a killed writer."""
    return (root / ASIDE).is_dir()


def remove_staged(root: Path) -> None:
    """Remove a killed writer's files in a folder; the caller holds the folder's lock."""
    remove_tree(root / ASIDE)


def sync_files(folder: Path, files: Sequence[str]) -> None:
    """Sync files to the disk."""
    if len(files) > _FEW and _sync_disk(folder):
        return
    for path in files:
        with open_file(Path(path)) as stream:
            os.fsync(stream.fileno())


def _sync_disk(folder: Path) -> bool:
    """Sync a folder's disk; return False where this system can't, or can't report failed writes."""
    libc = ctypes.CDLL(None, use_errno=True)
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if not hasattr(libc, "syncfs") or not release:
        return False
    if (int(release[1]), int(release[2])) < _SYNCFS_REPORTS:
        return False
    number = os.open(folder, os.O_RDONLY)
    try:
        return bool(libc.syncfs(number) == 0)
    finally:
        os.close(number)
