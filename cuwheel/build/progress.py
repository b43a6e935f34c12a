"""How far a build is: its output turned into one line with steps, files, time left, and memory."""

from __future__ import annotations

import re
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.build.launcher.events import EventTail, is_source
from cuwheel.system.process import running_commands
from cuwheel.system.quantities import plural, show_size, show_time

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.system.output.live import Live


_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # ninja's default status, `[3/47] Building …`
_LOOK_INTERVAL = 1.0  # seconds between two looks at what compiles
# A guess of the time left is worth something where steps are alike: it has been made over a part of
# the steps and some time, and has hardly moved since there were fewer of them. Of a build whose
# long compiles come last, as jax-finufft's, it never is.
_LEAST_SHARE = 0.25  # of all steps
_LEAST_TIME = 60.0  # seconds spent, and seconds left
_EARLIER = (0.5, 0.75)  # of the steps until now
_LARGEST_MOVE = 0.25  # of the guess


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
        self._whole = 0.0  # seconds until the last step ends; 0: nothing is known of it
        self._guesses: list[float] = []  # seconds, by steps that worked
        self._files = ""
        self._looked = -_LOOK_INTERVAL

    def see(self, text: str, memory: int) -> None:
        """Take one line of output, and the bytes of memory in use."""
        now = time.monotonic()
        spent = now - self._started
        if found := _STEP.search(text):
            self._count(int(found[1]), int(found[2]), spent)
        if now - self._looked >= _LOOK_INTERVAL:
            self._looked, self._files = now, _describe_files()
        left = self._whole - spent
        # One long step at the end can outlast the guess: better no time than a wrong one.
        guess = f"about {round(left / 60)} min left, " if left >= _LEAST_TIME else ""
        self._line.show(
            f"{self._step}{self._files}{guess}{show_time(spent)} so far, "
            f"{plural(self._jobs, 'job')}, {show_size(memory)}"
        )

    def _count(self, done: int, total: int, spent: float) -> None:
        if done < self._done:  # the package runs ninja again
            self._begun = self._last
            self._hits_before, self._seconds_before = self._events.hits, self._events.hit_seconds
            self._guesses = []
        self._done, self._last = done, time.monotonic()
        self._events.read()
        hits = min(self._events.hits - self._hits_before, done)
        of_hits = (self._events.hit_seconds - self._seconds_before) / self._jobs
        worked = done - hits
        each = (self._last - self._begun - of_hits) / worked if worked else 0.0
        whole = spent + each * (total - done)
        self._guesses += [whole] * (worked - len(self._guesses))
        is_worth = spent >= _LEAST_TIME and worked >= _LEAST_SHARE * (total - hits)
        self._whole = whole if is_worth and self._is_steady(whole) else 0.0
        self._step = f"step {done}/{total}{f' ({hits} from the cache)' if hits else ''}, "

    def _is_steady(self, guess: float) -> bool:
        count = len(self._guesses)
        earlier = [self._guesses[int(count * share)] for share in _EARLIER if count]
        return all(abs(one - guess) <= _LARGEST_MOVE * guess for one in earlier)


def _describe_files() -> str:
    """What is being compiled now, the longest first: `kernel.cu and 3 more, `."""
    files: dict[str, None] = {}
    for words in running_commands():
        if "-c" in words:  # an option of every compiler driver: compile, don't link
            files |= {PurePosixPath(word).name: None for word in words if is_source(word)}
    first = next(iter(files), "")
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{first}{more}, " if first else ""
