"""Runs the steps of a nightly run, and writes its report anew after each."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

from cuwheel.errors import CommandFailedError
from cuwheel.explain.session import explained
from cuwheel.nightly.folders import earlier_runs
from cuwheel.nightly.page import PAGE, page_of
from cuwheel.nightly.record import OUT_OF_TIME, REPORT, Step, now
from cuwheel.system.files import write_atomically
from cuwheel.system.output.documents import as_file
from cuwheel.system.process import run as run_program
from cuwheel.system.quantities import show_time
from cuwheel.system.whole_files import read_end

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.nightly.record import NightlyRun, State
    from cuwheel.system.console import Console


_KILLED = -9  # status of a program that `process.run` ended
_ERROR = re.compile(r"^(?:error|fatal): (.*)", re.MULTILINE)


class Recorder:
    """The run that is going on, and its folder.

    Args:
        folder: of the report.
        run: what has been done so far.
        deadline: of `time.monotonic`; no step goes on behind it.
        console: told of each step.
    """

    def __init__(self, folder: Path, run: NightlyRun, deadline: float, console: Console) -> None:
        self.folder = folder
        self.run = run
        self.deadline = deadline
        self.console = console
        self._write()

    @property
    def is_out_of_time(self) -> bool:
        """Whether a step that begins now could do nothing."""
        return time.monotonic() >= self.deadline

    def run_step(self, name: str, command: Sequence[str | Path], **options: Any) -> Step:
        """Run a program as a step, and take it into the report; arguments as `execute` has them."""
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
        """Run a program; what became of it.

        Args:
            name: of the step.
            command: the program and its arguments; it gets this process's environment.
            about: target or cell.
            failure_log: a log that it may leave elsewhere where it fails, which says more.
            pages: files that it may write below the report's folder, relative to that.
        """
        if self.is_out_of_time:
            return Step(name=name, about=about, state="skipped", detail=OUT_OF_TIME)
        log = self.log_path(name, about)
        started = time.monotonic()
        with self.console.stage(f"{name} {about}".strip()), self.console.live(name) as line:
            try:
                status = run_program(
                    command,
                    env=os.environ,
                    log=log,
                    on_line=lambda text, _: line.show(text) if text else None,
                    timeout=self.deadline - started,
                    check=False,
                ).status
            except CommandFailedError as error:  # there is no such program
                log.write_text(f"{error}\n")
                status = error.status
        state: State = "passed" if status == 0 else "failed"
        if status == _KILLED and self.is_out_of_time:
            state = "ended"
        kept = self._keep(failure_log, log) if state == "failed" else log
        return Step(
            name=name,
            about=about,
            state=state,
            detail=OUT_OF_TIME if state == "ended" else _detail(log, status),
            seconds=time.monotonic() - started,
            log=str(log.relative_to(self.folder)),
            pages=tuple(page for page in pages if (self.folder / page).is_file()),
            explanation=_explanation(kept, self.console) if state == "failed" else "",
        )

    def skip(self, name: str, why: str, *, about: str = "") -> Step:
        """Say that a step isn't run, and why."""
        return self.add(Step(name=name, about=about, state="skipped", detail=why))

    def add(self, step: Step) -> Step:
        """Take a step into the report."""
        self.run = dataclasses.replace(self.run, steps=(*self.run.steps, step))
        self._write()
        if step.state != "passed":
            self.console.note(f"{step.title}: {step.state}, {step.detail}")
        elif self.console.is_verbose:
            self.console.note(f"{step.title}: passed in {show_time(step.seconds)}, {step.log}")
        return step

    def replace_run(self, **values: str) -> None:
        """Change what is said of the whole run: its commit, its end."""
        self.run = dataclasses.replace(self.run, **values)  # type: ignore[arg-type]
        self._write()

    def finish(self) -> None:
        """Write down that the run has ended."""
        self.replace_run(ended=now())

    def log_path(self, name: str, about: str = "") -> Path:
        """Where a step's log is."""
        folder = self.folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{'-'.join(filter(None, (name, about)))}.log"

    def _keep(self, failure_log: Path | None, log: Path) -> Path:
        """A copy of the log that says more: the next build of the cell removes that."""
        if failure_log is None or not failure_log.is_file():
            return log
        kept = log.with_suffix(".program.log")
        shutil.copyfile(failure_log, kept)
        return kept

    def _write(self) -> None:
        write_atomically(self.folder / REPORT, as_file(self.run))
        earlier = tuple(earlier_runs(self.folder))
        write_atomically(self.folder / PAGE, page_of(self.run, earlier))


def _detail(log: Path, status: int) -> str:
    """What its error says, where it is one of cuwheel's or git's; nothing where there is none."""
    if status == 0:
        return ""
    text = read_end(log) if log.is_file() else ""
    said = _ERROR.search(text)
    return f"status {status}: {said[1]}" if said else f"status {status}"


def _explanation(log: Path, console: Console) -> str:
    with contextlib.suppress(OSError):
        return explained(log, {}, console)
    return ""
