"""Whether a cache may be used: programs in it are run, so whoever can write it decides what runs.

Standard library only: the engine's own environment lies in the cache, and is looked at before it
is started.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import UntrustedCacheError
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = 0
_USER_MAP = Path("/proc/self/uid_map")
_UNMAPPED = Path("/proc/sys/kernel/overflowuid")  # whose everything is that a namespace lacks
_EVERYBODY = f"{_ROOT} {_ROOT} {(1 << 32) - 1}"  # user_namespaces(7): no namespace


def check_cache(folder: Path, name: str) -> None:
    """See that nobody else decides what is in a cache.

    It has to be this user's, or root's. Another user's is taken where its owner lets a group write
    it that this user is in; for root it isn't. Nobody outside that group may write it, nor replace
    one of the folders that it lies in.

    Args:
        folder: needn't be there.
        name: of the variable that names another one.

    Raises:
        UntrustedCacheError: somebody else does.
    """
    here = Path(os.path.realpath(folder))
    if reason := next((fault for fault in _faults(here) if fault), ""):
        raise UntrustedCacheError(
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
    """Whether a user namespace doesn't know whose it is, as in a rootless container."""
    try:
        is_all = " ".join(read_text(_USER_MAP).split()) == _EVERYBODY
        return not is_all and user == int(read_text(_UNMAPPED))
    except (OSError, ValueError):
        return False
