"""A program that runs under the memory gate: its memory, its end, and the signals for it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes as long as all else here
import os
import select
import time

from cuwheel.base import free_memory

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

SIGNALLED = 128  # shells add a signal's number to this
_INTERVAL = 0.05  # seconds between two measurements of a running program

# Where memory runs out, the kernel is to kill these, which can be run again, before the build
# system that started them: proc_pid_oom_score_adj(5), from -1000 to 1000.
_OOM_SCORE = 500

_FORWARDED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM)
# Python ignores these, and what it starts would.
RESTORED = (_signal.SIGPIPE, _signal.SIGXFSZ)


def on_signals(handler: Callable[[int, object], None]) -> None:
    """Have a function called for the signals that are to reach the program."""
    for number in _FORWARDED:
        if _signal.getsignal(number) is not _signal.SIG_IGN:  # as under nohup
            _signal.signal(number, handler)


def shell_status(status: int) -> int:
    """Return the exit status that shells have for a status of wait(2)."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else SIGNALLED + os.WTERMSIG(status)


class SignalsHeld:
    """Blocks signals while the program to which they are forwarded is being started."""

    def __enter__(self) -> set[int]:
        """Return the signals that were blocked before."""
        before: set[int] = _signal.pthread_sigmask(_signal.SIG_BLOCK, _FORWARDED)
        self._before = before
        return before

    def __exit__(self, *_: object) -> None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._before)


def become(argv: list[str]) -> NoReturn:
    """Replace this process by a program that needs no gate."""
    for number in RESTORED:
        _signal.signal(number, _signal.SIG_DFL)
    os.execv(argv[0], argv)  # noqa: S606 - no shell is wanted


class Child:
    """The program, running.

    Raises:
        OSError: it can't be started.

    Attributes:
        peak: bytes, the most it has taken so far.
        cpu: seconds of processor time, once it has ended.
    """

    def __init__(self, argv: list[str], mask: set[int]) -> None:
        self.status = 0
        self.peak = 0
        self.cpu = 0.0
        # Nothing is written into this pipe; it ends with the last process that has inherited it.
        self._end, inherited = os.pipe()
        os.set_inheritable(inherited, True)
        self._pid = os.posix_spawn(argv[0], argv, os.environ, setsigdef=RESTORED, setsigmask=mask)
        os.close(inherited)
        _prefer_as_victim(self._pid)

    def send(self, number: int) -> None:
        """Forward a signal."""
        if self._pid:
            os.kill(self._pid, number)

    def kill(self) -> None:
        """Kill it and the processes that it has started."""
        for pid in free_memory.tree(self._pid) if self._pid else ():
            _kill(pid)

    def has_ended(self) -> bool:
        """Wait a moment for the end; `status` and `peak` are final after it."""
        waiting = select.poll()
        waiting.register(self._end, select.POLLHUP)
        is_closed = waiting.poll(_INTERVAL * 1000)
        pid, status, usage = os.wait4(self._pid, os.WNOHANG)
        if not pid:
            if is_closed:  # by itself, or a moment before its end
                time.sleep(0.002)
            return False
        self._pid = 0
        os.close(self._end)
        # The largest of the program and the processes that it waited for: getrusage(2), in KiB.
        self.peak = max(self.peak, usage.ru_maxrss * 1024)
        self.cpu = usage.ru_utime + usage.ru_stime
        self.status = shell_status(status)
        return True

    def used(self) -> int:
        """Return the bytes that it uses now."""
        now = free_memory.memory_of_tree(self._pid)
        self.peak = max(self.peak, now)
        return now


def _kill(pid: int) -> None:
    try:  # noqa: SIM105 - contextlib takes long to import
        os.kill(pid, _signal.SIGKILL)
    except ProcessLookupError:  # it has ended
        pass


def _prefer_as_victim(pid: int) -> None:
    path = f"/proc/{pid}/oom_score_adj"
    try:
        with open(path, "r+", encoding="ascii") as stream:  # noqa: PTH123
            if int(stream.read()) < _OOM_SCORE:
                stream.write(str(_OOM_SCORE))
                stream.flush()
    except OSError:  # it has ended, or the system refuses
        pass
