"""The recorder of a nightly run: runs its steps, and writes the report anew after each."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.output.documents import as_file
from cuwheel.base.system.process import run as run_program
from cuwheel.base.system.quantities import show_time
from cuwheel.base.system.regular_files import copy_regular, read_end
from cuwheel.build.workspace.masking import PublicText
from cuwheel.check.explain.explain import explained
from cuwheel.lab.nightly.page import PAGE, page_of
from cuwheel.lab.nightly.record import (
    OUT_OF_TIME,
    REPORT,
    NightlyRun,
    State,
    Step,
    earlier_runs,
    now,
)

_KILLED = -9  # status of a program that `process.run` ended
# The first error of cuwheel or git in a log.
_ERROR = re.compile(r"^(?:error|fatal): (.*)", re.MULTILINE)


class Recorder:
    """The current run and its folder; at the deadline (`time.monotonic`) its step is ended."""

    def __init__(
        self,
        folder: Path,
        run: NightlyRun,
        deadline: float,
        console: Console,
        *,
        environ: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.run = run
        self.deadline = deadline
        self.console = console
        self.environ = environ
        self._text = PublicText({}, names=False)
        self._write()

    def run_step(self, name: str, command: Sequence[str | Path], **options: Any) -> Step:
        """Run a program as a step of the report; for the arguments see `execute`."""
        return self.add(self.execute(name, command, **options))

    def execute(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        about: str = "",
        failure_log: Path | None = None,
        pages: Sequence[str] = (),
    ) -> Step:
        """Run a program in the caller's environment, and return it as a step.

        Args:
            failure_log: a more detailed log that the program leaves elsewhere if it fails.
            pages: files that it may write, relative to the report's folder.
        """
        started = time.monotonic()
        if started >= self.deadline:
            return Step(name=name, about=about, state="skipped", detail=OUT_OF_TIME)
        log = self.log_path(name, about)
        with self.console.stage(f"{name} {about}".strip()), self.console.live(name) as line:
            try:
                status = run_program(
                    command,
                    env=self.environ,
                    log=log,
                    on_line=lambda text, _: line.show(text) if text else None,
                    timeout=self.deadline - started,
                    check=False,
                ).status
            except CommandFailedError as error:  # the program doesn't exist
                log.write_text(f"{error}\n")
                status = error.status
            finally:
                self.mask(log)
        state: State = "passed" if status == 0 else "failed"
        if status == _KILLED and time.monotonic() >= self.deadline:
            state = "ended"
        explanation = ""
        if state == "failed":
            with contextlib.suppress(OSError):
                explanation = explained(self._failure_log(failure_log, log), {}, self.console)
        return Step(
            name=name,
            about=about,
            state=state,
            detail=OUT_OF_TIME if state == "ended" else _detail(log, status),
            seconds=time.monotonic() - started,
            log=str(log.relative_to(self.folder)),
            pages=tuple(page for page in pages if (self.folder / page).is_file()),
            explanation=explanation,
        )

    def skip(self, name: str, why: str, *, about: str = "") -> Step:
        """Add a step that isn't run."""
        return self.add(Step(name=name, about=about, state="skipped", detail=why))

    def add(self, step: Step) -> Step:
        """Add a step to the report."""
        self.run = dataclasses.replace(self.run, steps=(*self.run.steps, step))
        self._write()
        if step.state != "passed":
            self.console.note(f"{step.title}: {step.state}, {step.detail}")
        elif self.console.is_verbose:
            self.console.note(f"{step.title}: passed in {show_time(step.seconds)}, {step.log}")
        return step

    def replace_run(self, **values: str) -> None:
        """Change fields of the whole run, such as its commit."""
        self.run = dataclasses.replace(self.run, **values)  # type: ignore[arg-type]
        self._write()

    def finish(self) -> None:
        """Record the end of the run."""
        self.replace_run(ended=now())

    def log_path(self, name: str, about: str = "") -> Path:
        """Return the path of a step's log."""
        folder = self.folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{'-'.join(filter(None, (name, about)))}.log"

    def mask(self, log: Path) -> None:
        """Remove secrets from a log, which is published with the page."""
        if log.is_file():
            self._text.copy_file(log, log)

    def _failure_log(self, failure_log: Path | None, log: Path) -> Path:
        """Return the report's copy of the detailed log, which the cell's next build removes."""
        if failure_log is None or not failure_log.is_file():
            return log
        copy = log.with_suffix(".program.log")
        copy_regular(failure_log, copy)
        self.mask(copy)
        return copy

    def _write(self) -> None:
        run = self._text.record(self.run)
        write_atomically(self.folder / REPORT, as_file(run))
        write_atomically(self.folder / PAGE, page_of(run, tuple(earlier_runs(self.folder))))


def _detail(log: Path, status: int) -> str:
    """Return a failed program's status and its error's text; empty if it passed."""
    if status == 0:
        return ""
    error = _ERROR.search(read_end(log) if log.is_file() else "")
    return f"status {status}: {error[1]}" if error else f"status {status}"
