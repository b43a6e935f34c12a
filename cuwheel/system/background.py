"""Work in a thread of its own beside what else happens, which never outlives its block."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING

from cuwheel.system.parallel import Stop, complete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_INTERVAL = 0.2  # seconds between two checks for a Ctrl-C, as in `parallel`


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
        thread = threading.Thread(target=complete, args=(work, call), daemon=True)
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
        """Ask all to stop, and wait for that."""
        self._stop.ask()
        for thread in self._threads:
            thread.join()
