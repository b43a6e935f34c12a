"""Threads that are abandoned when they take too long, or at Ctrl-C.

For requests to servers: nothing can end a thread in which the system looks up a name, or reads from
a connection. Such a thread is a daemon, which ends with the process at the latest. Tasks that are
begun early are waited for: `Background`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_PART = 64 << 20  # bytes of files that a thread takes at once
_MAX_THREADS = 8  # servers and disks serve this many without slowing each other
# Seconds between two checks of the work. Python's main thread can begin to wait just after a Ctrl-C
# that it has not yet noticed, and would notice it at the end of the wait.
_POLL_INTERVAL = 0.2
_GRACE = 1.0  # seconds for work that checks `Stop` to end as it should
_LONG_GRACE = 30.0  # seconds for the same where it has programs and files to end with


class StoppedError(Exception):
    """Work in a thread ended early at a request to stop; it is never reported."""


class Stop:
    """Request to other threads to end; they check it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        """Request the end."""
        self._event.set()

    def is_requested(self) -> bool:
        """Return True after a request."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise StoppedError after a request."""
        if self._event.is_set():
            raise StoppedError

    def pause(self, seconds: float) -> None:
        """Sleep; raise StoppedError after a request."""
        self._event.wait(seconds)
        self.check()


def run_within(seconds: float, task: Callable[[], Result], stop: Stop) -> Result:
    """Run a function in a thread of its own; abandon it, with TimeoutError, after `seconds`."""
    work: Future[Result] = Future()
    threading.Thread(target=_complete, args=(work, task), daemon=True).start()
    deadline = time.monotonic() + seconds
    while not work.done():
        stop.check()
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        wait([work], timeout=min(_POLL_INTERVAL, remaining))
    return work.result()


def run_all(tasks: Sequence[Callable[[], Result]], stop: Stop) -> list[Result]:
    """Run functions in threads, several at once, and return their results in order.

    The first exception ends the others and is raised. `stop`, which they check, is set at the end.
    """
    waiting = deque((Future[Result](), task) for task in tasks)
    running = [future for future, _ in waiting]
    threads = [
        threading.Thread(target=_work, args=(waiting, stop), daemon=True)
        for _ in range(_MAX_THREADS)
    ]
    for thread in threads:
        thread.start()
    try:
        pending = set(running)
        while pending:
            ended, pending = wait(running, timeout=_POLL_INTERVAL, return_when=FIRST_EXCEPTION)
            if any(task.exception() for task in ended):
                break
    finally:
        stop.request()
        deadline = time.monotonic() + _GRACE
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    for task in running:
        problem = task.exception() if task.done() else None
        if problem is not None and not isinstance(problem, StoppedError):
            raise problem
    return [task.result() for task in running]


def map_all(
    function: Callable[[Item], Result], items: Sequence[Item], sizes: Iterable[int]
) -> list[Result]:
    """Run a function on files of some sizes in threads, and return the results in order.

    Reading, hashing and copying release the interpreter lock. Small files are grouped into one
    thread: handing the lock back and forth for each would double their cost. The first exception
    is raised; what hadn't begun by then isn't done.
    """
    stop = Stop()

    def run(part: Sequence[Item]) -> list[Result]:
        done = []
        for item in part:
            stop.check()
            done.append(function(item))
        return done

    parts: list[list[Item]] = []
    room = 0
    for item, size in zip(items, sizes, strict=True):
        if room <= 0:
            parts.append([])
            room = _PART
        parts[-1].append(item)
        room -= size
    results = run_all([partial(run, part) for part in parts], stop)
    return [result for part in results for result in part]


def result_of(work: Future[Result]) -> Result:
    """Wait for a task in a thread and return its result, or raise its exception."""
    while wait([work], timeout=_POLL_INTERVAL).not_done:
        pass
    return work.result()


class Background(contextlib.AbstractContextManager["Background"]):
    """Tasks in parallel to a block, by name; at its end they are stopped and waited for."""

    def __init__(self) -> None:
        self._stop = Stop()
        self._tasks: dict[str, Future[None]] = {}
        self._threads: list[threading.Thread] = []

    def start(self, name: str, task: Callable[[Stop], None]) -> None:
        """Begin a task."""
        work: Future[None] = Future()
        self._tasks[name] = work
        call = partial(task, self._stop)
        # A daemon: a second Ctrl-C leaves it behind, and it ends with the process.
        thread = threading.Thread(target=_complete, args=(work, call), daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self, name: str) -> None:
        """Wait for a task's end and raise its exception; an unknown name is ignored."""
        if work := self._tasks.get(name):
            result_of(work)

    def __exit__(self, *_: object) -> None:
        """Request the end of all tasks, and wait for it, with a time limit."""
        self._stop.request()
        deadline = time.monotonic() + _LONG_GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _work(waiting: deque[tuple[Future[Result], Callable[[], Result]]], stop: Stop) -> None:
    while not stop.is_requested():
        try:
            future, task = waiting.popleft()
        except IndexError:
            return
        _complete(future, task)


def _complete(work: Future[Result], task: Callable[[], Result]) -> None:
    try:
        work.set_result(task())
    except BaseException as problem:  # noqa: BLE001 - the waiting thread raises it
        work.set_exception(problem)
