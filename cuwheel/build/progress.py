"""How far a build is: its output turned into one line with steps, time left, jobs and memory."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from cuwheel.build.launcher.events import EventTail
from cuwheel.system.quantities import plural, show_size, show_time

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.system.console import Live


_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # ninja's default status, `[3/47] Building …`


class Progress:
    """Follows one build.

    Steps that the compile cache answered say nothing about how long the others take, and come
    first where an interrupted build goes on: the time left is that of the steps that worked.

    Args:
        line: where it is shown.
        jobs: how many compiles run at once.
        events_log: in which the launcher notes each compile; it needn't be there.
    """

    def __init__(self, line: Live, jobs: int, events_log: Path) -> None:
        self._line = line
        self._jobs = jobs
        self._events = EventTail(events_log)
        self._started = self._begun = self._last = time.monotonic()
        self._done = 0
        self._hits_before = 0
        self._seconds_before = 0.0
        self._step = ""
        self._whole = 0.0  # seconds until the last step ends, guessed from those that are done

    def see(self, text: str, memory: int) -> None:
        """Take one line of output, and the bytes of memory in use."""
        spent = time.monotonic() - self._started
        if found := _STEP.search(text):
            self._count(int(found[1]), int(found[2]), spent)
        # One long step at the end can outlast the guess: better no time than a wrong one.
        left = f"about {show_time(self._whole - spent)} left, " if self._whole > spent else ""
        self._line.show(
            f"{self._step}{left}{show_time(spent)} so far, {plural(self._jobs, 'job')}, "
            f"{show_size(memory)}"
        )

    def _count(self, done: int, total: int, spent: float) -> None:
        if done < self._done:  # the package runs ninja again
            self._begun = self._last
            self._hits_before, self._seconds_before = self._events.hits, self._events.hit_seconds
        self._done, self._last = done, time.monotonic()
        self._events.read()
        hits = min(self._events.hits - self._hits_before, done)
        of_hits = (self._events.hit_seconds - self._seconds_before) / self._jobs
        worked = done - hits
        each = (self._last - self._begun - of_hits) / worked if worked else 0.0
        self._whole = spent + each * (total - done)
        self._step = f"step {done}/{total}{f' ({hits} from the cache)' if hits else ''}, "
