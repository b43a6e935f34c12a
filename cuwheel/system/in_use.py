"""Folders of the cache that a process uses: meanwhile nobody removes them.

Standard library only, as the engine's own start holds its environment too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def hold(folder: Path, *, with_children: bool = False) -> None:
    """Say that this process uses a folder, until it ends, however that ends.

    Waits while somebody removes the folder. A disk where that can't be said is no reason to stop:
    nothing is removed there either.

    Args:
        folder: in the cache.
        with_children: the program that this process becomes uses it too.
    """
    mark = _mark(folder)
    with contextlib.suppress(OSError):
        if mark not in _HELD:
            # Never closed: the kernel does it.
            _HELD[mark] = os.open(mark, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(_HELD[mark], fcntl.LOCK_SH)
            os.set_inheritable(_HELD[mark], with_children)
        os.utime(_HELD[mark])  # another user's can't be


@contextlib.contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Say whether nobody uses a folder; until the block ends nobody begins to.

    Raises:
        OSError: it can't be known.
    """
    mark = _mark(folder)
    was_there = os.path.exists(mark)  # noqa: PTH110 - a text
    try:  # network disks lock for one process only what it may write
        file = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except PermissionError:  # another user's
        yield False
        return
    try:
        if not was_there:
            os.utime(file, (0, 0))  # asking is no use
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(file)


def last_used(folder: Path) -> float:
    """When somebody began to use a folder, or changed it: seconds since 1970."""
    times = [folder.lstat().st_mtime]
    with contextlib.suppress(OSError):
        times.append(os.stat(_mark(folder)).st_mtime)  # noqa: PTH116 - a text
    return max(times)


def is_mark(name: str) -> bool:
    """Whether a file's name is one of those that this module makes."""
    return name.endswith(_SUFFIX)


_SUFFIX = ".use"
_HELD: dict[str, int] = {}  # marks of this process, with their open files


def _mark(folder: Path) -> str:
    return f"{folder}{_SUFFIX}"
