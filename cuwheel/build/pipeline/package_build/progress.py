"""The progress line of a build: steps, files and memory, read from its output."""

from __future__ import annotations

import re
import time
from pathlib import Path, PurePosixPath

from cuwheel.base.system.console import Live
from cuwheel.base.system.disks import DiskWatch
from cuwheel.base.system.process import running_commands
from cuwheel.base.system.quantities import first_of, plural, show_size, show_time
from cuwheel.build.compile.events import count_compiles, is_source

_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # ninja's default status, `[3/47] Building …`
_LOOK_INTERVAL = 1.0  # seconds between two looks at what compiles


class Progress:
    """The progress of one build, of all its extensions.

    Args:
        log: the events of its launcher.
        known: sources that earlier builds of the recipe compiled; 0: there were none.
        watch: of the disks that the build writes to.
    """

    def __init__(self, line: Live, jobs: int, log: Path, known: int, watch: DiskWatch) -> None:
        self._line = line
        self._jobs = jobs
        self._log = log
        self._known = known
        self.watch = watch
        self._compiled = self._offset = 0
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
            self.watch.look()
            count, self._offset = count_compiles(self._log, self._offset)
            self._compiled += count
        self._line.show(
            f"{self._describe_count()}{self._files}{show_time(now - self._started)} so far, "
            f"{plural(self._jobs, 'job')}, {show_size(memory)}"
        )

    def _describe_count(self) -> str:
        """Return `12 of about 73 files, `; where no build is known, ninja's step of one extension.

        A cached file may be missing in what is known, and another may not be compiled again.
        """
        if self._known and self._compiled <= self._known:
            return f"{self._compiled} of about {plural(self._known, 'file')}, "
        return f"{plural(self._compiled, 'file')} compiled, {self._step}"


def _describe_files() -> str:
    """Return the sources that are compiled now, the longest first: `kernel.cu and 3 more, `."""
    files: dict[str, None] = {}
    for argv in running_commands():
        if "-c" in argv:  # an option of every compiler driver: compile, don't link
            files |= {PurePosixPath(word).name: None for word in argv if is_source(word)}
    return f"{first_of([*files], 1)}, " if files else ""
