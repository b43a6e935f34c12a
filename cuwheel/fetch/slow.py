"""How slow a server may be, and the one setting that allows more.

A byte now and then keeps every time-out of a single read from ending a request, in uv and pip too.
So what has come is counted, and for a program of others what it has done. The limits stand in
`cuwheel/limits.py`. Standard library only: `cuwheel.bootstrap` runs pip by this.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.errors import UsageError
from cuwheel.standalone.memory_gate.free_memory import tree
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SLOW_VARIABLE = "CUWHEEL_SLOW_NETWORK"
SLOW_FIX = (
    f"check the server; if the connection itself is slow, {SLOW_VARIABLE}=4 makes all time limits "
    "four times as long"
)
_TICKS = os.sysconf("SC_CLK_TCK")  # a second, as /proc counts the processor's time
_WORK = 0.02  # of one processor's time; what waits for a server takes less
_DELAY = 0.25  # of the time, waited for a processor; a byte now and then is soon read, at any load
_NANOSECONDS = 1e9  # in a second
_WRITTEN = "wchar:"  # in /proc/<pid>/io, proc_pid_io(5)
_USER_TIME = 11  # field of /proc/<pid>/stat behind the name, proc_pid_stat(5)


def slow_factor(environ: Mapping[str, str] = os.environ) -> float:
    """By how much every time limit of the network is stretched.

    Raises:
        UsageError: the variable is no positive number.
    """
    given = environ.get(SLOW_VARIABLE, "").strip() or "1"
    try:
        factor = float(given)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise UsageError(
            f"{SLOW_VARIABLE} is {given}, which is not a positive number",
            why="every network time limit is multiplied by it",
            fix=f"{SLOW_VARIABLE}=4 makes all of them four times as long",
        )
    return factor


class ProgramWatch:
    """Whether a program that downloads gets on: it writes, computes, or waits for its turn.

    Its turn: of a lock, or of a processor that others use. On a machine with too much work pip
    unpacks for minutes and hardly computes. What it has started counts with it. Where the system
    doesn't say what it has written, nobody knows, and the limit of all its time alone ends it.

    Args:
        factor: as `slow_factor` gives it.
    """

    def __init__(self, factor: float) -> None:
        self.window = limits.PROGRAM_WINDOW * factor
        self._least = int(limits.NETWORK_RATE * limits.PROGRAM_WINDOW)
        self._end = time.monotonic() + limits.NETWORK_TOTAL * factor
        self._total = limits.NETWORK_TOTAL * factor
        self._since = time.monotonic()
        self._done = (0, 0.0, 0.0)
        self._delays: dict[str, float] = {}  # of each thread
        self._delayed = 0.0
        self.fault = ""

    def is_stalled(self, pid: int) -> bool:
        """Whether it has to be ended; `fault` says why then. To be asked every second or so."""
        now = time.monotonic()
        processes = tree(pid)
        self._add_delays(processes)
        written, worked = _written_by(processes), _worked_by(processes)
        before, worked_before, delayed_before = self._done
        if (
            written is None
            or written - before >= self._least
            or worked - worked_before >= _WORK * self.window
            or self._delayed - delayed_before >= _DELAY * self.window
            or _wait_for_lock(processes)
        ):
            self._since, self._done = now, (written or 0, worked, self._delayed)
        if now - self._since > self.window:
            self.fault = f"less than {self._least} bytes came in {self.window:.0f} seconds"
        elif now > self._end:
            self.fault = f"it took more than {self._total:.0f} seconds"
        return bool(self.fault)

    def _add_delays(self, processes: Iterable[int]) -> None:
        """Count the seconds that threads waited for a processor; those of one that ended stay."""
        delays = _delays_of(processes)
        for thread, seconds in delays.items():
            self._delayed += max(0.0, seconds - self._delays.get(thread, 0.0))
        self._delays = delays


def _written_by(processes: Iterable[int]) -> int | None:
    """Bytes that processes have written to files and pipes; None where one's can't be read."""
    written = 0
    for pid in processes:
        fields = _read(f"/proc/{pid}/io").split()
        if _WRITTEN not in fields:
            return None
        written += int(fields[fields.index(_WRITTEN) + 1])
    return written


def _worked_by(processes: Iterable[int]) -> float:
    """Seconds that processes have computed, with those that they have waited for."""
    ticks = 0
    for pid in processes:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[_USER_TIME : _USER_TIME + 4]))
    return ticks / _TICKS


def _delays_of(processes: Iterable[int]) -> dict[str, float]:
    """Seconds that each thread could run and had no processor: the kernel's sched-stats.rst.

    Nothing of a thread that ends meanwhile, or where the kernel doesn't count it.
    """
    found = {}
    for pid in processes:
        for thread in _threads_of(pid):
            fields = _read(f"/proc/{pid}/task/{thread}/schedstat").split()
            if len(fields) > 1:
                found[thread] = int(fields[1]) / _NANOSECONDS
    return found


def _threads_of(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names are all that is asked
    except OSError:  # it has ended
        return []


def _wait_for_lock(processes: Iterable[int]) -> bool:
    """Whether one waits for another process, which is named in the same table: proc_locks(5)."""
    waiting = [line.split() for line in _read("/proc/locks").splitlines() if "->" in line]
    return any(str(pid) in words for pid in processes for words in waiting)


def _read(path: str) -> str:
    try:
        return read_text(Path(path), encoding="ascii", errors="replace")
    except OSError:  # it has ended, or isn't ours to look at
        return ""
