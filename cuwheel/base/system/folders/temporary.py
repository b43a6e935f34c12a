"""Temporary folders; those of killed processes are removed by the next run.

A process holds a lock on each of its folders; the kernel releases it, however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.errors import FileAccessError
from cuwheel.base.system.files import remove_tree

_PREFIX = "cuwheel.tmp-"


@contextlib.contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """Create an empty folder, by default among the system's, and remove it with its contents.

    Raises FileAccessError where none of the system's can be written.
    """
    root = parent or _system_folder()
    _remove_abandoned(root)
    folder, lock = _make(root)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # the next run tries again
            remove_tree(folder)
        os.close(lock)


def _system_folder() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # `tempfile` names no file
        raise FileAccessError(
            "no folder for temporary files can be written",
            why=error.strerror or "",
            fix="free space there (`df -h /tmp`), or set TMPDIR to a folder of your own with space",
        ) from error


def _make(place: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # another run took it for abandoned before the lock
            continue
        with contextlib.suppress(OSError):  # a disk without locks: nothing is removed there
            fcntl.flock(lock, fcntl.LOCK_SH)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove_abandoned(place: Path) -> None:
    for folder in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, another user's, or gone
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
            finally:
                os.close(lock)
