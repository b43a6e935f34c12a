"""Work in several threads that ends soon when one part fails or the person presses Ctrl-C."""

from __future__ import annotations

import contextlib
import socket
import threading
import weakref
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Result = TypeVar("Result")

_AT_ONCE = 8  # servers and disks serve this many without slowing each other
# Seconds between two looks at the work. Python's main thread can begin to wait just after a Ctrl-C
# that it has not yet seen, and would see it at the end of the wait.
_LOOK = 0.2


class StoppedError(Exception):
    """Work in a thread ended early because somebody asked for that; nobody is told of it."""


class Stop:
    """Asks work in other threads to end: they look at it, and their connections are cut."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._guard = threading.Lock()
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def ask(self) -> None:
        """Ask for the end, and cut every connection."""
        with self._guard:
            self._asked.set()
            for connected in self._open:
                _cut(connected)

    def is_asked(self) -> bool:
        """Whether the end was asked for."""
        return self._asked.is_set()

    def check(self) -> None:
        """Go on, or end here.

        Raises:
            StoppedError: the end was asked for.
        """
        if self._asked.is_set():
            raise StoppedError

    def pause(self, seconds: float) -> None:
        """Sleep.

        Raises:
            StoppedError: the end was asked for.
        """
        self._asked.wait(seconds)
        self.check()

    def watch(self, connected: socket.socket) -> None:
        """Cut this connection too, once the end is asked for."""
        with self._guard:
            self._open.add(connected)
            if self._asked.is_set():
                _cut(connected)


def _cut(connected: socket.socket) -> None:
    # Not SSLSocket's own method, which takes its state away under the thread that reads.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def run_all(tasks: Sequence[Callable[[], Result]], stop: Stop) -> list[Result]:
    """Run functions in threads, several at once, and give their results in order.

    Args:
        tasks: what to run; the first that fails ends the others.
        stop: they look at it; it is asked for when this returns or raises.

    Raises:
        Exception: what the first task that failed raised.
    """
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        running = [pool.submit(task) for task in tasks]
        left = set(running)
        while left:
            ended, left = wait(running, timeout=_LOOK, return_when=FIRST_EXCEPTION)
            if any(task.exception() for task in ended):
                break
    finally:
        stop.ask()
        pool.shutdown(cancel_futures=True)
    for task in running:
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, StoppedError):
            raise problem
    return [task.result() for task in running]
