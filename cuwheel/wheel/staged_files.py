"""Many files that get their names together, once all of them are safe from a power cut.

To sync each file is to wait for the disk each time, and costs the kernel more than the writing;
one sync of the whole disk, syncfs(2), waits once for all of them: docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cuwheel.system.files import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ASIDE = ".cuwheel-new"  # folder of files without their names yet
# So few are synced one by one: what builds have just written to the disk may be gigabytes.
_FEW = 16
_SYNCFS_REPORTS = (5, 8)  # the Linux since which syncfs(2) says that something wasn't written


class StagedFiles:
    """Files of one folder that have no names yet."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._aside = f"{root}/{_ASIDE}"
        self._numbers = itertools.count()
        self._names: dict[str, str] = {}

    @contextlib.contextmanager
    def new_file(self, name: str) -> Iterator[BinaryIO]:
        """Write one; threads may write several at once.

        Args:
            name: that it gets, below the folder; what stands under it is replaced then.

        Raises:
            OSError: the disk can't be written.
        """
        path = f"{self._aside}/{next(self._numbers)}"  # tens of thousands: no Path for each
        with self._open(path) as stream:
            os.fchmod(stream.fileno(), 0o644)
            yield stream
        self._names[path] = name

    def _open(self, path: str) -> BinaryIO:
        try:
            return open(path, "xb")  # noqa: PTH123
        except FileNotFoundError:
            # Of the first file. Nobody else reads what isn't complete.
            Path(self._aside).mkdir(mode=0o700, exist_ok=True)
            return open(path, "xb")  # noqa: PTH123

    def commit(self) -> None:
        """Give all of them their names, in the order in which they were completed.

        Raises:
            OSError: the disk can't be written; those that have no name yet get none.
        """
        if not self._names:
            return
        sync_files(self._root, [*self._names])
        for path, name in self._names.items():
            os.replace(path, f"{self._root}/{name}")  # noqa: PTH105
        Path(self._aside).rmdir()


@contextlib.contextmanager
def staged_files(root: Path) -> Iterator[StagedFiles]:
    """Write files of a folder that get their names when the block ends; none where it raises.

    Args:
        root: the folder, of which the caller holds a lock: what a killed writer left is removed.

    Raises:
        OSError: the folder can't be written.
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
    """Whether files of a folder have no names yet: they are being written, or were left."""
    return (root / _ASIDE).is_dir()


def remove_staged(root: Path) -> None:
    """Remove what a killed writer left in a folder; the caller holds the folder's lock."""
    remove_tree(root / _ASIDE)


def sync_files(folder: Path, files: Sequence[str]) -> None:
    """See that files are on the disk.

    Args:
        folder: on the disk of which they are.
        files: their paths.

    Raises:
        OSError: one couldn't be written.
    """
    if len(files) > _FEW and _sync_disk(folder):
        return
    for path in files:
        with Path(path).open("rb") as stream:
            os.fsync(stream.fileno())


def _sync_disk(folder: Path) -> bool:
    """Whether all that was written to a folder's disk is there, as far as this system can tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if not hasattr(libc, "syncfs") or not release:
        return False
    if (int(release[1]), int(release[2])) < _SYNCFS_REPORTS:
        return False
    place = os.open(folder, os.O_RDONLY)
    try:
        return bool(libc.syncfs(place) == 0)
    finally:
        os.close(place)
