"""Run the engine, and kill it and its process group where it is about to change a file.

Started as `python -m tests.support.machines.kill_points POINT LIST ARGUMENT...`. Python calls an
audit hook before each change of a file (PEP 578). At the one with number POINT the group is killed;
where there are fewer, LIST gets a line for each.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from pathlib import Path

# What changes files, with the place of the path in the event's arguments:
# docs.python.org/3/library/audit_events.html. Moving, copying and removing trees is made of these.
_CHANGES = {
    "os.chmod": 0,
    "os.chown": 0,
    "os.link": 1,
    "os.mkdir": 0,
    "os.remove": 0,
    "os.rename": 1,
    "os.rmdir": 0,
    "os.symlink": 1,
    "os.truncate": 0,
    "os.utime": 0,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_EXCHANGE = "renameat2"  # asked of the C library, which no event tells of
_NO_FILES = ("/dev/", "/proc/", "/sys/")


class _Killer:
    def __init__(self, point: int) -> None:
        self.point = point
        self.changes: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if (change := _change(event, arguments)) is None:
            return
        with self._lock:
            self.changes.append(change)
            if len(self.changes) == self.point:
                os.killpg(0, signal.SIGKILL)


def _change(event: str, arguments: tuple[object, ...]) -> str | None:
    """What is about to happen; None: no file changes."""
    if event == "ctypes.dlsym":
        return f"{event} {arguments[1]}" if arguments[1] == _EXCHANGE else None
    if event == "open":
        path, _, flags = arguments
        if not (isinstance(flags, int) and flags & _WRITING):
            return None
    elif event in _CHANGES:
        path = arguments[_CHANGES[event]]
    else:
        return None
    if not isinstance(path, str | bytes | os.PathLike):  # a file that is open already
        return f"{event} of an open file" if event != "open" else None
    text = os.fsdecode(path)
    return None if text.startswith(_NO_FILES) else f"{event} {text}"


if __name__ == "__main__":
    killer = _Killer(int(sys.argv[1]))
    listed = Path(sys.argv[2])
    sys.argv = ["cuwheel", *sys.argv[3:]]
    sys.addaudithook(killer)
    try:
        runpy.run_module("cuwheel", run_name="__main__", alter_sys=True)
    finally:
        listed.write_text("".join(f"{change}\n" for change in killer.changes))
