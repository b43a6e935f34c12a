"""Work in threads that is left behind when it takes too long or the person presses Ctrl-C.

For what waits for servers: nothing can end a thread in which the system looks up a name, or reads
from a connection. Such a thread is a daemon, which ends with the process at the latest.

Work that is begun early, beside what else happens, is waited for: `in_background`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
    """Work in a thread ended early because somebody asked for that; it is never reported."""


class Stop:
    """Asks work in other threads to end: they check it."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        """Ask for the end."""
        self._asked.set()

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


def run_within(seconds: float, task: Callable[[], Result], stop: Stop) -> Result:
    """Run a function in a thread of its own, and leave it behind when it takes too long.

    Raises:
        TimeoutError: it takes too long.
        StoppedError: the end was asked for.
    """
    work: Future[Result] = Future()
    threading.Thread(target=_complete, args=(work, task), daemon=True).start()
    deadline = time.monotonic() + seconds
    while not work.done():
        stop.check()
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        wait([work], timeout=min(_POLL_INTERVAL, left))
    return work.result()


def run_all(tasks: Sequence[Callable[[], Result]], stop: Stop) -> list[Result]:
    """Run functions in threads, several at once, and give their results in order.

    Args:
        tasks: what to run; the first that fails ends the others.
        stop: they check it; the end is asked for when this returns or raises.

    Raises:
        Exception: what the first task that failed raised.
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
        left = set(running)
        while left:
            ended, left = wait(running, timeout=_POLL_INTERVAL, return_when=FIRST_EXCEPTION)
            if any(task.exception() for task in ended):
                break
    finally:
        stop.ask()
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
    """Run a function on files in threads, and give the results in order.

    What is read, hashed or copied for long lets other threads run meanwhile. Of small files so many
    go to one thread that they are no work for two: handing Python's lock back and forth for each
    would double their cost.

    Args:
        function: what to run.
        items: what it takes.
        sizes: bytes of each.

    Raises:
        Exception: what it raised first; what hadn't begun by then isn't done.
    """
    stop = Stop()

    def run(part: Sequence[Item]) -> list[Result]:
        done = []
        for item in part:
            stop.check()
            done.append(function(item))
        return done

    parts: list[list[Item]] = []
    left = 0
    for item, size in zip(items, sizes, strict=True):
        if left <= 0:
            parts.append([])
            left = _PART
        parts[-1].append(item)
        left -= size
    return [one for part in run_all([partial(run, part) for part in parts], stop) for one in part]


@contextlib.contextmanager
def in_background() -> Iterator[Background]:
    """Let tasks run beside the block; at its end they are asked to stop, and waited for."""
    background = Background()
    try:
        yield background
    finally:
        background.end()


class Background:
    """Tasks that are begun early, by name; whoever needs one waits for it."""

    def __init__(self) -> None:
        self._stop = Stop()
        self._tasks: dict[str, Future[None]] = {}
        self._threads: list[threading.Thread] = []

    def start(self, name: str, task: Callable[[Stop], None]) -> None:
        """Begin a task.

        Args:
            name: by which it is waited for.
            task: checks what it is given, and ends early where that says so.
        """
        work: Future[None] = Future()
        self._tasks[name] = work
        call = partial(task, self._stop)
        # A daemon: a second Ctrl-C leaves it behind, and it ends with the process.
        thread = threading.Thread(target=_complete, args=(work, call), daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self, name: str) -> None:
        """Wait for a task's end; for none where none of that name was begun.

        Raises:
            Exception: what the task raised.
        """
        work = self._tasks.get(name)
        while work and wait([work], timeout=_POLL_INTERVAL).not_done:
            pass
        if work:
            work.result()

    def end(self) -> None:
        """Ask all to stop, and wait for that, but not for ever."""
        self._stop.ask()
        deadline = time.monotonic() + _LONG_GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _work(waiting: deque[tuple[Future[Result], Callable[[], Result]]], stop: Stop) -> None:
    while not stop.is_asked():
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
