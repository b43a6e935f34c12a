"""What all builds of a machine share: who waits for memory, and who was promised how much.

A folder with one small file for each gated process. Its owner keeps it locked (flock(2)) and lets
the program that it runs inherit the lock, so the file is alive as long as either of them; a file
that can be locked belongs to the dead and is removed. No process id is looked at: builds in several
process namespaces share the folder. Part of the memory gate, docs/adr/0017, so written for a short
start. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import fcntl
import os
import time

if __package__:
    from cuwheel.standalone.memory_gate import free_memory, scheduler
else:  # in a build these scripts lie side by side
    import free_memory  # type: ignore[import-not-found,no-redef]
    import scheduler  # type: ignore[import-not-found,no-redef]

# Seconds
_LOCKED = 5.0  # nobody holds the folder's lock for longer than this, unless it was stopped
_ASK_AGAIN = (0.03, 0.1)  # at first; and later, when this is little of the time waited
_ASK_AGAIN_SHARE = 0.01  # of the time waited
_ASK_AGAIN_EACH = 0.02  # more for each that is before: it is their turn first
_ASK_AGAIN_MOST = 0.5

# More swap in use by so many bytes than so many seconds ago: the machine has begun to swap.
_SWAP_GROWTH = 32 * free_memory.MIB
_SWAP_WINDOW = 5.0


class SharedFolder:
    """The folder, as anyone uses it who enters what programs are promised.

    Args:
        folder: of all builds; made where it isn't there. Machines that share a disk don't get in
            each other's way, nor does what was left when one of them was switched off.

    Raises:
        OSError: here and in all methods: the folder can't be used.
    """

    def __init__(self, folder: str) -> None:
        self._folder = f"{folder}/gated-{free_memory.boot()}"
        os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103 - pathlib takes long to import

    def deciding(self) -> _Mutex:
        """What to hold while it is decided who starts."""
        return _Mutex(f"{self._folder}/lock")

    def enter(self, name: str) -> int:
        """Make an entry that lives as long as the file that is given back is open."""
        path = f"{self._folder}/{name}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def remove(self, name: str, file: int) -> None:
        """Take an entry out."""
        os.close(file)
        _remove(f"{self._folder}/{name}")

    def others(self, own: set[str]) -> list[scheduler.Claim]:
        """All living entries but those of these names."""
        listed = os.listdir(self._folder)  # noqa: PTH208 - as above
        names = [name for name in listed if name[0].isdigit() and name not in own]
        return [entry for entry in map(self._living, names) if entry]

    def read_memory(self, now: float) -> free_memory.Memory:
        """What memory there is; it is short, too, while the swap in use grows."""
        seen = free_memory.read_memory()
        seen.pressed = self.is_swapping(seen.swapped, now) or seen.pressed
        return seen

    def is_swapping(self, swapped: int, now: float) -> bool:
        """Whether more swap is in use than some seconds ago."""
        path = f"{self._folder}/swapped"
        noted, before = _noted(path, swapped)
        if now - noted > _SWAP_WINDOW:
            with open(path, "w", encoding="ascii") as stream:  # noqa: PTH123
                stream.write(f"{now} {swapped}")
        return now - noted < 2 * _SWAP_WINDOW and swapped - before > _SWAP_GROWTH

    def _living(self, name: str) -> scheduler.Claim | None:
        """Another's entry; None, and removed, where its owner has ended."""
        path = f"{self._folder}/{name}"
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if _is_locked(file, fcntl.LOCK_SH):
                return scheduler.Claim.read(name, os.read(file, scheduler.WIDTH))
            _remove(path)
        except ValueError:  # it has written nothing yet
            pass
        finally:
            os.close(file)
        return None


class Ledger:
    """The shared folder, as one process uses it.

    Args:
        folder: of all builds.
        build: a word that all processes of one build have in common.
        jobs: how many of its build may run at once; 0 for any number.

    Attributes:
        queued_until: when it last had to wait for others of its build to end, not for memory, in
            seconds since 1970; 0 where it never had.

    Raises:
        OSError: here and in all methods: the folder can't be used.
    """

    def __init__(self, folder: str, build: str = "-", jobs: int = 0) -> None:
        self.queued_until = 0.0
        self._build = build
        self._jobs = jobs
        self._shared = SharedFolder(folder)
        self._entry: scheduler.Claim | None = None
        self._file = -1

    def wait(self, expected: int, known: int = 0, *, alone: str = "") -> None:
        """Return when there is room, and hold it until `leave`.

        Args:
            expected: bytes that will be taken at the peak.
            known: bytes of them that are certain.
            alone: name of a level: wait until nothing else that is gated runs in it, and let
                nothing start there meanwhile.
        """
        try:
            while not self._may_start(expected, known, alone=alone):
                if self._entry:
                    time.sleep(pause(self._entry))
                    if self._entry.lacks == scheduler.JOBS:
                        self.queued_until = time.time()
        except OSError:
            self.leave()
            raise

    def tell(self, used: int) -> None:
        """Say how many bytes are in use now, and that this process is alive."""
        if self._entry:
            self._entry.uses(used)
            os.pwrite(self._file, self._entry.written(), 0)

    def must_yield(self) -> bool:
        """Whether what this process runs is to end, since memory runs out."""
        if not self._entry:
            return False
        levels = free_memory.read_memory().levels
        if not any(level.is_short for level in levels):
            return False  # as nearly always, and the others' entries needn't be read
        return scheduler.must_yield(self._entry, self._others(self._entry.name), levels)

    def is_alone(self, level: str) -> bool:
        """Whether nothing else that is gated runs in a level now."""
        others = self._others(self._entry.name) if self._entry else []
        return not any(one.started and level in one.levels for one in others)

    def leave(self) -> None:
        """Give back what was promised."""
        if self._entry:
            name, self._entry = self._entry.name, None
            self._shared.remove(name, self._file)

    def _may_start(self, expected: int, known: int, *, alone: str) -> bool:
        with self._shared.deciding():
            now = time.monotonic()
            seen = self._shared.read_memory(now)
            entry = self._entry or self._enter(expected, seen, alone=alone)
            entry.beat = now
            entry.known = known
            entry.lacks = scheduler.lack(entry, self._others(entry.name), seen, now)
            if entry.lacks == scheduler.START:
                entry.started = now
            os.pwrite(self._file, entry.written(), 0)
        return entry.started > 0

    def _enter(self, expected: int, seen: free_memory.Memory, *, alone: str) -> scheduler.Claim:
        name = f"{time.monotonic_ns():020d}-{os.getpid()}"
        self._file = self._shared.enter(name)
        os.set_inheritable(self._file, True)
        levels = tuple(level.name for level in seen.levels)
        self._entry = scheduler.Claim(
            name, expected, levels, alone=alone, build=self._build, jobs=self._jobs
        )
        return self._entry

    def _others(self, own: str) -> list[scheduler.Claim]:
        return self._shared.others({own})


def pause(entry: scheduler.Claim) -> float:
    """Seconds until who waits asks again."""
    waited = entry.beat - entry.asked
    shortest = min(_ASK_AGAIN[1], _ASK_AGAIN[0] + _ASK_AGAIN_SHARE * waited)
    return min(_ASK_AGAIN_MOST, shortest + _ASK_AGAIN_EACH * entry.position)


class _Mutex:
    """One process at a time decides. Who was stopped while it did doesn't stop the others."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def __enter__(self) -> None:
        last = time.monotonic() + _LOCKED
        while _is_locked(self._file, fcntl.LOCK_EX) and time.monotonic() < last:
            time.sleep(0.002)

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def _is_locked(file: int, kind: int) -> bool:
    """Whether another holds a lock on a file; where not, it is ours."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _noted(path: str, swapped: int) -> tuple[float, int]:
    """When the swap in use was last noted, and how much it was."""
    try:
        with open(path, encoding="ascii") as stream:  # noqa: PTH123
            words = stream.read().split()
        return float(words[0]), int(words[1])
    except (FileNotFoundError, ValueError, IndexError):
        return 0.0, swapped


def _remove(path: str) -> None:
    try:  # noqa: SIM105 - contextlib takes long to import
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:  # by another, who found it dead
        pass
