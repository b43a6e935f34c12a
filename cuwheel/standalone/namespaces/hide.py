"""Run a program where files and folders of the machine can't be seen: mount_namespaces(7).

`python -I hide.py DECOY PLACE... -- PROGRAM ARGUMENT...`. A folder is covered by an empty one. A
file is covered by DECOY, which has to lie outside the folders; what the decoy has to be, `hiding`
knows. Nothing else on the machine sees the covers, and they end with the program. Needs no
privilege where the system grants user namespaces; ends with status 125 where it doesn't, and the
program hasn't run then. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import ctypes
import os
import sys

REFUSED = 125  # exit status, as `env` and `timeout` have it for a failure of their own

# <linux/sched.h> and <linux/mount.h>
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 1
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def enter() -> None:
    """Move into a mount namespace of one's own; the user stays who it is.

    Raises:
        OSError: the system refuses it.
    """
    user, group = os.getuid(), os.getgid()
    try:
        _check(_libc.unshare(_CLONE_NEWNS))
    except OSError:
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
        # user_namespaces(7): without `deny`, an ordinary user may map no group.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:  # noqa: PTH123
                stream.write(text)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def cover(place: str, decoy: str) -> None:
    """Hide one folder or file.

    Raises:
        OSError: the system refuses it.
    """
    if os.path.isdir(place):  # noqa: PTH112 - as all of this module
        _mount("none", place, "tmpfs", _MS_RDONLY)
    else:
        _mount(decoy, place, None, _MS_BIND)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), None), target)


def _check(result: int, path: str | None = None) -> None:
    if result:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)


if __name__ == "__main__":
    end = sys.argv.index("--")
    try:
        enter()
        for hidden in sys.argv[2:end]:
            cover(hidden, sys.argv[1])
    except OSError as problem:
        print(f"nothing can be hidden here: {problem}")
        sys.exit(REFUSED)
    os.execv(sys.argv[end + 1], sys.argv[end + 1 :])  # noqa: S606 - no shell is wanted
