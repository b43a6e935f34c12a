"""The ledger of a machine's builds: which programs wait for memory, and how much is reserved.

A folder with one small file for each gated program. The engine of its build keeps it locked
(flock(2)); a file that can be locked belongs to a dead engine and is removed. No process id is
looked at: builds in several process namespaces share the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base import free_memory
from cuwheel.build.compile.memory.scheduler import WIDTH, Claim

_LOCKED = 5.0  # seconds; only a stopped process holds the folder's lock for longer


class Ledger:
    """The folder of entries.

    Args:
        folder: of all builds; made where it isn't there. Machines that share a disk don't get in
            each other's way, nor does what was left when one of them was switched off.

    Raises:
        OSError: here and in all methods: the folder can't be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"gated-{free_memory.boot()}"
        self._folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Hold the lock under which one engine decides; a stopped one doesn't stop the others."""
        file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            last = time.monotonic() + _LOCKED
            while _is_locked(file, fcntl.LOCK_EX) and time.monotonic() < last:
                time.sleep(0.002)
            yield
        finally:
            os.close(file)

    def enter(self, name: str) -> int:
        """Make an entry that lives as long as the returned file is open."""
        file = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def remove(self, name: str, file: int) -> None:
        """Remove an entry."""
        os.close(file)
        (self._folder / name).unlink(missing_ok=True)

    def others(self, own: set[str]) -> list[Claim]:
        """Return all living entries but those of these names."""
        names = [path.name for path in self._folder.glob("[0-9]*")]
        return [claim for name in names if name not in own and (claim := self._living(name))]

    def _living(self, name: str) -> Claim | None:
        """Return another's entry; None, and removed, where its owner has ended."""
        path = self._folder / name
        with contextlib.suppress(FileNotFoundError, ValueError):  # nothing is written there yet
            with path.open("rb") as file:
                if _is_locked(file.fileno(), fcntl.LOCK_SH):
                    return Claim.read(name, file.read(WIDTH))
            path.unlink()
        return None


def _is_locked(file: int, kind: int) -> bool:
    """Return True if another holds a lock on a file; else it is ours."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
