"""Time limits of the network: of requests, and of programs that download.

A byte now and then prevents every time-out of a single read, in uv and pip too. So received bytes
are counted, and for other programs their activity. The limits are in `cuwheel/base/limits.py`.
Standard library only: `cuwheel.bootstrap` runs pip with this.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from cuwheel.base import limits
from cuwheel.base.errors import UsageError
from cuwheel.base.free_memory import tree
from cuwheel.base.system.parallel import Stop
from cuwheel.base.system.regular_files import read_text

SLOW_VARIABLE = "CUWHEEL_SLOW_NETWORK"
SLOW_FIX = (
    f"check the server; if the connection itself is slow, {SLOW_VARIABLE}=4 makes all time limits "
    "four times as long"
)
_TICKS = os.sysconf("SC_CLK_TCK")  # a second, as /proc counts the processor's time
_DELAY = 0.25  # of the time, waiting for a processor; slow downloads wait less, at any load
_NANOSECONDS = 1e9  # in a second
_WORK = 0.02  # of one processor's time; a program that waits for a server takes less
_WRITTEN = "wchar:"  # in /proc/<pid>/io, proc_pid_io(5)
_USER_TIME = 11  # field of /proc/<pid>/stat behind the name, proc_pid_stat(5)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Limits for servers that don't answer, are busy or break off.

    Attributes:
        pause: seconds before the first new attempt; each later pause is twice as long.
        connect: seconds to connect to one address of a host.
        answer: seconds until an answer begins (a mirror may have to fetch the file itself first),
            and between two pieces of it.
        limit: seconds without progress after which all ends; less than `rate` is no progress.
        rate: minimum bytes a second.
        total: seconds after which all ends, with or without progress.
    """

    pause: float = 0.5
    attempts: int = 5
    connect: float = 5.0
    answer: float = 20.0
    limit: float = 29.0
    rate: float = limits.NETWORK_RATE
    total: float = limits.NETWORK_TOTAL

    @property
    def least(self) -> int:
        """Bytes that have to arrive in `limit`."""
        return int(self.rate * self.limit)

    def stretched(self, factor: float) -> RetryPolicy:
        """Return the policy for a connection that is slower by a factor."""
        return replace(
            self,
            connect=self.connect * factor,
            answer=self.answer * factor,
            limit=self.limit * factor,
            rate=self.rate / factor,
            total=self.total * factor,
        )


RETRY_POLICY = RetryPolicy()


class Attempts:
    """Counter of consecutive attempts without progress, with the pauses between them.

    The policy is stretched by CUWHEEL_SLOW_NETWORK.

    Args:
        most: attempts without progress; None: as many as the policy allows.
        total: seconds after which all ends; None: as many as the policy allows.
    """

    def __init__(
        self, stop: Stop | None = None, *, most: int | None = None, total: float | None = None
    ) -> None:
        policy = RETRY_POLICY
        if total:
            policy = replace(policy, total=total, limit=min(total, policy.limit))
        self.retry_policy = policy.stretched(slow_factor())
        self._most = most or self.retry_policy.attempts
        self.stop = stop or Stop()
        self._end = monotonic() + self.retry_policy.total
        self.note_progress()

    @property
    def left(self) -> float:
        """Seconds until all ends."""
        return min(self._last_news + self.retry_policy.limit, self._end) - monotonic()

    @property
    def slow_reason(self) -> str:
        """The limit that has passed, for messages."""
        policy = self.retry_policy
        if monotonic() >= self._end:
            return f"it took more than {policy.total:.0f} seconds"
        return f"less than {policy.least} bytes came in {policy.limit:.0f} seconds"

    @property
    def timeout(self) -> tuple[float, float]:
        """Seconds of the next attempt: to connect to one address, and for each read."""
        remaining = max(0.1, self.left)
        return min(self.retry_policy.connect, remaining), min(self.retry_policy.answer, remaining)

    def note_progress(self) -> None:
        """Start counting again: data has arrived."""
        self._failed = 0
        self._last_news = monotonic()

    def reset_count(self) -> None:
        """Start counting attempts again, at another server; the time goes on."""
        self._failed = 0

    def may_retry(self, wait: float = 0.0) -> bool:
        """Wait after a failed attempt and return True, or return False at a limit.

        Args:
            wait: seconds of the server's `Retry-After`; more than is left is too much.
        """
        self.stop.check()
        self._failed += 1
        pause = wait or self.retry_policy.pause * 2 ** (self._failed - 1)
        if self._failed >= self._most or pause >= self.left:
            return False
        self.stop.pause(pause)
        return True


def slow_factor(environ: Mapping[str, str] = os.environ) -> float:
    """Return the factor for every time limit of the network; raises UsageError."""
    value = environ.get(SLOW_VARIABLE, "").strip() or "1"
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise UsageError(
            f"{SLOW_VARIABLE} is {value}, which is not a positive number",
            why="every network time limit is multiplied by it",
            fix=f"{SLOW_VARIABLE}=4 makes all of them four times as long",
        )
    return factor


class ProgramWatch:
    """Detector of programs whose download stalls: they neither write, compute, nor wait their turn.

    Their turn: of a lock, or of a processor that others use. On a machine with too much work pip
    unpacks for minutes and hardly computes. Child processes count too. Where the system doesn't
    report written bytes, only the limit on the whole time ends the program.

    Args:
        factor: of `slow_factor`.
    """

    def __init__(self, factor: float) -> None:
        self.window = limits.PROGRAM_WINDOW * factor
        self._least = int(limits.NETWORK_RATE * limits.PROGRAM_WINDOW)
        self._end = monotonic() + limits.NETWORK_TOTAL * factor
        self._total = limits.NETWORK_TOTAL * factor
        self._since = monotonic()
        self._done = (0, 0.0, 0.0)
        self._delays: dict[str, float] = {}  # of each thread
        self._delayed = 0.0
        self.fault = ""

    def is_stalled(self, pid: int) -> bool:
        """Return True if the program has to be ended, and set `fault`; to be called each second."""
        now = monotonic()
        processes = tree(pid)
        self._add_delays(processes)
        written, worked = _written_by(processes), _worked_by(processes)
        before, worked_before, delayed_before = self._done
        if (
            written is None
            or written - before >= self._least
            or worked - worked_before >= _WORK * self.window
            or self._delayed - delayed_before >= _DELAY * self.window
            or any(str(pid) in fields for fields in _lock_waits() for pid in processes)
        ):
            self._since, self._done = now, (written or 0, worked, self._delayed)
        if now - self._since > self.window:
            self.fault = f"less than {self._least} bytes came in {self.window:.0f} seconds"
        elif now > self._end:
            self.fault = f"it took more than {self._total:.0f} seconds"
        return bool(self.fault)

    def _add_delays(self, processes: Iterable[int]) -> None:
        """Add the seconds that threads waited for a processor; those of ended threads stay."""
        delays = _delays_of(processes)
        for thread, seconds in delays.items():
            self._delayed += max(0.0, seconds - self._delays.get(thread, 0.0))
        self._delays = delays


def _written_by(processes: Iterable[int]) -> int | None:
    """Return the bytes that processes wrote to files and pipes; None where one's are unreadable."""
    written = 0
    for pid in processes:
        fields = _read(f"/proc/{pid}/io").split()
        if _WRITTEN not in fields:
            return None
        written += int(fields[fields.index(_WRITTEN) + 1])
    return written


def _worked_by(processes: Iterable[int]) -> float:
    """Return the seconds that processes have computed, with those of ended children."""
    ticks = 0
    for pid in processes:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[_USER_TIME : _USER_TIME + 4]))
    return ticks / _TICKS


def _delays_of(processes: Iterable[int]) -> dict[str, float]:
    """Return the seconds that each thread waited for a processor: the kernel's sched-stats.rst.

    Threads that end meanwhile are left out; empty where the kernel doesn't count.
    """
    delays = {}
    for pid in processes:
        with contextlib.suppress(OSError):  # it has ended
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names suffice
                fields = _read(f"/proc/{pid}/task/{thread}/schedstat").split()
                if len(fields) > 1:
                    delays[thread] = int(fields[1]) / _NANOSECONDS
    return delays


def _lock_waits() -> list[list[str]]:
    """Return the lines of processes that wait for a lock of another one: proc_locks(5)."""
    return [line.split() for line in _read("/proc/locks").splitlines() if "->" in line]


def _read(path: str) -> str:
    try:
        return read_text(Path(path), encoding="ascii", errors="replace")
    except OSError:  # it has ended, or belongs to another user
        return ""
