"""The file systems that folders are on: their names, and which of them ran full during a run."""

from __future__ import annotations

import os
from pathlib import Path

from cuwheel.base.system.machine import free_disk, lacks_inodes, nearest_folder
from cuwheel.base.system.quantities import show_size

_LITTLE = 64 << 20  # bytes; with more free, a disk isn't full now
_NEARLY_FULL = 4 << 20  # bytes; what fails with less left on its disk failed for that


def is_full(folder: Path) -> bool:
    """Return True if next to nothing can be written on a folder's disk now."""
    return free_disk(folder) < _LITTLE or lacks_inodes(folder)


def is_same_disk(folder: Path, other: Path) -> bool:
    """Return True if two folders, which needn't be there, are on one file system."""
    one, two = (nearest_folder(path).stat().st_dev for path in (folder, other))
    return one == two


def describe_disk(folder: Path) -> str:
    """Return the mount point and the size of a folder's file system: `/tmp, 64.0 MiB in all`."""
    path = nearest_folder(folder.absolute()).resolve()
    device = path.stat().st_dev
    while path != path.parent and path.parent.stat().st_dev == device:
        path = path.parent
    status = os.statvfs(path)
    return f"{path}, {show_size(status.f_blocks * status.f_frsize)} in all"


class DiskWatch:
    """The least free space on the disks of folders while a program runs.

    A failed program's files are often gone when it has ended, and with them the reason.
    """

    def __init__(self, *folders: Path) -> None:
        self._least = {folder: free_disk(folder) for folder in folders}

    def look(self) -> None:
        """Measure the disks; called every second or more often."""
        for folder, least in self._least.items():
            self._least[folder] = min(least, free_disk(folder))

    @property
    def fullest(self) -> Path:
        """The folder on the disk that had the least space."""
        return min(self._least, key=self._least.__getitem__)

    @property
    def full(self) -> Path | None:
        """The folder on a disk that ran full; None: there was none."""
        self.look()
        return self.fullest if self._least[self.fullest] < _NEARLY_FULL else None
