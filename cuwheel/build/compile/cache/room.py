"""Cleaning of the compile cache after a build: traps, and the oldest files above the limit.

The folder is the package's, which may put a link to a person's folder there, or exchange a folder
for one meanwhile: so folders are opened without following links, and files removed through them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class _CacheFile(NamedTuple):
    """A file, link or device; the one that was used last is the greatest."""

    used: int
    size: int
    mode: int
    name: str
    folder: int


def remove_traps(folder: Path) -> None:
    """Remove files at which a reader of the compile cache would block: FIFOs, devices, links.

    A build may put them there, and the cache's programs open every file with a right name. ccache's
    locks stay: links to a host and a process, without a slash.
    """
    for entry in _entries(folder):
        if stat.S_ISREG(entry.mode):
            continue
        with contextlib.suppress(OSError):
            is_lock = stat.S_ISLNK(entry.mode) and "/" not in os.readlink(
                entry.name, dir_fd=entry.folder
            )
            if not is_lock:
                os.unlink(entry.name, dir_fd=entry.folder)


def remove_oldest(folder: Path, room: int) -> None:
    """Remove the files that weren't used for longest, where all together exceed `room` bytes."""
    files = sorted(
        (entry[:2] for entry in _entries(folder) if stat.S_ISREG(entry.mode)), reverse=True
    )
    oldest = None
    for used, size in files:
        room -= size
        if room < 0:
            oldest = used
            break
    if oldest is None:
        return
    for entry in _entries(folder):
        if stat.S_ISREG(entry.mode) and entry.used <= oldest:
            with contextlib.suppress(OSError):  # another build removes it too
                os.unlink(entry.name, dir_fd=entry.folder)


def _entries(folder: Path) -> Iterator[_CacheFile]:
    """Yield all below a folder that are no folders; each is valid until the next."""
    with contextlib.suppress(OSError, RecursionError):  # it isn't there; or nests without end
        for _, folders, names, opened in os.fwalk(folder):
            for name in (*names, *folders):
                with contextlib.suppress(OSError):
                    status = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        yield _CacheFile(
                            status.st_mtime_ns, status.st_size, status.st_mode, name, opened
                        )
