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
    with contextlib.suppress(OSError):
        # Never closed: the kernel does it.
        file = os.open(_mark(folder), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.utime(file)
        fcntl.flock(file, fcntl.LOCK_SH)
        os.set_inheritable(file, with_children)


@contextlib.contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Say whether nobody uses a folder; until the block ends nobody begins to.

    Raises:
        OSError: it can't be known.
    """
    file = os.open(_mark(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
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


def _mark(folder: Path) -> str:
    return f"{folder}{_SUFFIX}"
