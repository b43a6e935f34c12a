"""What a build may have left in its compile cache, and how much of it stays.

It belongs to the package, which may put a link to a person's folder there, or exchange a folder for
one meanwhile: so folders are opened without following links, and files removed through them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Entry(NamedTuple):
    """What isn't a folder; the one that was used last is the greatest."""

    used: int
    size: int
    mode: int
    name: str
    folder: int


def remove_traps(folder: Path) -> None:
    """Remove what a reader of the compile cache would wait at: FIFOs, sockets, devices, links.

    A build may put them there, and the cache's programs open what they find under a name.
    ccache's locks stay: links whose text, a host and a process, holds no slash.

    Args:
        folder: of a package; needn't be there.
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
    """Remove the files that weren't used for longest, where all together are too large.

    Args:
        folder: of objects; needn't be there.
        room: bytes that they may have.
    """
    files = sorted((one[:2] for one in _entries(folder) if stat.S_ISREG(one.mode)), reverse=True)
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


def _entries(folder: Path) -> Iterator[_Entry]:
    """All below a folder that are no folders; each as long as the next isn't asked for."""
    with contextlib.suppress(OSError, RecursionError):  # it isn't there; or nests without end
        for _, folders, names, opened in os.fwalk(folder):
            for name in (*names, *folders):
                with contextlib.suppress(OSError):
                    found = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    if not stat.S_ISDIR(found.st_mode):
                        yield _Entry(found.st_mtime_ns, found.st_size, found.st_mode, name, opened)
