"""The progress line of a build: steps, files and memory, read from its output."""

from __future__ import annotations

import re
import time
from pathlib import PurePosixPath

from cuwheel.base.system.console import Live
from cuwheel.base.system.process import running_commands
from cuwheel.base.system.quantities import first_of, plural, show_size, show_time
from cuwheel.build.compile.events import is_source

_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # ninja's default status, `[3/47] Building …`
_LOOK_INTERVAL = 1.0  # seconds between two looks at what compiles


class Progress:
    """The progress of one build."""

    def __init__(self, line: Live, jobs: int) -> None:
        self._line = line
        self._jobs = jobs
        self._started = time.monotonic()
        self._step = ""
        self._files = ""
        self._looked = -_LOOK_INTERVAL

    def see(self, text: str, memory: int) -> None:
        """Take one line of output, and the bytes of memory in use."""
        now = time.monotonic()
        if step := _STEP.search(text):
            self._step = f"step {step[1]}/{step[2]}, "
        if now - self._looked >= _LOOK_INTERVAL:
            self._looked, self._files = now, _describe_files()
        self._line.show(
            f"{self._step}{self._files}{show_time(now - self._started)} so far, "
            f"{plural(self._jobs, 'job')}, {show_size(memory)}"
        )


def _describe_files() -> str:
    """Return the sources that are compiled now, the longest first: `kernel.cu and 3 more, `."""
    files: dict[str, None] = {}
    for argv in running_commands():
        if "-c" in argv:  # an option of every compiler driver: compile, don't link
            files |= {PurePosixPath(word).name: None for word in argv if is_source(word)}
    return f"{first_of([*files], 1)}, " if files else ""
