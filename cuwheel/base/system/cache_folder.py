"""Folders of the cache: who may change them, since programs in them are run, and who uses them.

`cache --prune` leaves a folder that a process uses. Standard library only: bootstrap checks the
cache, and holds its environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.errors import FileAccessError
from cuwheel.base.system.regular_files import read_text

_ROOT = 0
_USER_MAP = Path("/proc/self/uid_map")
_UNMAPPED = Path("/proc/sys/kernel/overflowuid")  # the owner of files that a namespace lacks
_EVERYBODY = f"{_ROOT} {_ROOT} {(1 << 32) - 1}"  # user_namespaces(7): no namespace
_SUFFIX = ".use"  # of the mark beside a folder that is used
_HELD: dict[str, int] = {}  # marks of this process, with their open files


def check_cache(folder: Path, name: str) -> None:
    """Raise FileAccessError where other users can change the contents of a cache.

    It has to be this user's, or root's. Another user's is accepted where its owner lets a group
    write it that this user is in; not for root. No one outside that group may write it, nor replace
    a folder above it.
    """
    real = Path(os.path.realpath(folder))
    if reason := next(filter(None, _faults(real)), ""):
        raise FileAccessError(
            f"the cache {folder} can't be trusted",
            why=f"{reason}, and cuwheel runs programs from it",
            fix=f"set {name} to a folder of your own, below no world-writable folder except a "
            "sticky one such as /tmp; or, if this is the right folder, change its owner to this "
            "user and remove others' write permission: docs/how-to/slurm.md says how a group "
            "shares one, and what to do in a pod",
        )


def _faults(folder: Path) -> Iterator[str]:
    if folder.exists():
        yield _fault_of_owner(folder, folder.stat())
        if folder.stat().st_mode & stat.S_IWOTH:
            yield f"everybody can write to {folder}"
    for parent in folder.parents:
        if parent.exists():
            mode = parent.stat().st_mode
            # In a sticky folder, as /tmp, each user can only rename what is his own.
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                yield f"everybody can write to {parent}, and so replace this folder"


def _fault_of_owner(folder: Path, status: os.stat_result) -> str:
    user = os.geteuid()
    if status.st_uid in {user, _ROOT} or _is_unmapped(status.st_uid):
        return ""
    if user == _ROOT:
        return f"{folder} belongs to user {status.st_uid}, and you are root"
    groups = {os.getegid(), *os.getgroups()}
    if status.st_mode & stat.S_IWGRP and status.st_gid in groups:
        return ""
    return f"{folder} belongs to user {status.st_uid}, who shares it with none of your groups"


def _is_unmapped(user: int) -> bool:
    """Return True if a user namespace lacks this user, as in a rootless container."""
    try:
        is_all = " ".join(read_text(_USER_MAP).split()) == _EVERYBODY
        return not is_all and user == int(read_text(_UNMAPPED))
    except (OSError, ValueError):
        return False


def hold(folder: Path, *, with_children: bool = False) -> None:
    """Mark a folder as used until this process ends.

    Waits while another process removes the folder. A disk without locks is no error: nothing is
    removed there either.
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
    """Yield True if no process uses a folder; until the block ends none can begin to."""
    mark = _mark(folder)
    was_there = os.path.exists(mark)  # noqa: PTH110 - a text
    try:  # network disks lock for one process only what it may write
        file = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except PermissionError:  # another user's
        yield False
        return
    try:
        if not was_there:
            os.utime(file, (0, 0))  # this check doesn't count as use
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(file)


def last_used(folder: Path) -> float:
    """Return when a process began to use a folder, or changed it: seconds since 1970."""
    times = [folder.lstat().st_mtime]
    with contextlib.suppress(OSError):
        times.append(os.stat(_mark(folder)).st_mtime)  # noqa: PTH116 - a text
    return max(times)


def is_mark(name: str) -> bool:
    """Return True if a file's name is that of a mark of this module."""
    return name.endswith(_SUFFIX)


def _mark(folder: Path) -> str:
    return f"{folder}{_SUFFIX}"
