"""What an ordinary user meets: root passes over every mode of a file."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

_OTHER = 65534  # nobody, on every Linux


def ordinary_user() -> int:
    """The id of a user who isn't root: this one, or nobody."""
    return os.getuid() or _OTHER


def let_in(folder: Path) -> None:
    """Let others through to a folder: pytest's own are closed to them."""
    for one in (folder, *folder.parents):
        if not one.stat().st_mode & 1:
            one.chmod(one.stat().st_mode | 1)


def as_ordinary_user(act: Callable[[], object]) -> str:
    """Do something in a process of an ordinary user; what it raised, or nothing.

    Args:
        act: it imports nothing: where root's Python is, others may not look.
    """
    theirs, ours = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(_OTHER)
                os.setuid(_OTHER)
            act()
        except BaseException:  # noqa: BLE001 - whatever it was, the test shows it
            os.write(ours, traceback.format_exc().encode())
        os._exit(0)
    os.close(ours)
    with open(theirs, "rb") as said:  # noqa: PTH123
        text = said.read().decode()
    os.waitpid(child, 0)
    return text
