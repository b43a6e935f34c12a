"""What a person is told of a run that failed, and the command that tells it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuwheel.nightly.page import PAGE
from cuwheel.system.files import write_atomically
from cuwheel.system.process import run as run_program
from cuwheel.system.quantities import show_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.nightly.record import NightlyRun, Step


SUMMARY = "summary.txt"
REPORT_VARIABLE = "CUWHEEL_NIGHTLY_REPORT"
_TIME_LIMIT = 600.0  # seconds; a mail server may not answer
# Its standard input is a file, which `process.run` gives to none.
_SCRIPT = 'exec /bin/sh -c "$1" <"$2"'


def write_summary(run: NightlyRun, folder: Path) -> Path:
    """Write a run's summary beside its report: Markdown that reads as a mail, too.

    Raises:
        OSError: the folder can't be written.
    """
    path = folder / SUMMARY
    write_atomically(path, "\n".join(_lines(run, folder)) + "\n")
    return path


def run_hook(command: str, folder: Path) -> int:
    """Run a person's command: the summary is its input, the report's path a variable.

    Args:
        command: of a shell.
        folder: of the report; its log is written there.

    Returns:
        Its exit status.

    Raises:
        CommandFailedError: there is no shell.
    """
    words = ["/bin/sh", "-c", _SCRIPT, "nightly", command, str(folder / SUMMARY)]
    environ = {**os.environ, REPORT_VARIABLE: str(folder / PAGE)}
    log = folder / "logs" / "on-failure.log"
    log.parent.mkdir(exist_ok=True)
    return run_program(words, env=environ, log=log, timeout=_TIME_LIMIT, check=False).status


def _lines(run: NightlyRun, folder: Path) -> Iterator[str]:
    yield f"nightly on {run.host}, {run.started}: {run.state}"
    yield ""
    yield f"{run.counts}, in {show_time(run.seconds)}"
    yield f"commit: {run.commit or 'unknown'}"
    yield f"GPU: {', '.join(run.gpus) or 'none'}"
    yield f"report: {folder / PAGE}"
    yield ""
    for step in run.steps:
        detail = f": {step.detail}" if step.detail else ""
        yield f"- {step.state:<7} {step.title} ({show_time(step.seconds)}){detail}"
    for step in run.steps:
        if step.state == "failed":
            yield from _explained(step, folder)


def _explained(step: Step, folder: Path) -> Iterator[str]:
    yield ""
    yield f"## {step.title}"
    yield ""
    if step.log:
        yield f"log: {folder / step.log}"
        yield ""
    # Four tildes: a log may hold three backticks.
    yield "~~~~"
    yield step.explanation or step.detail
    yield "~~~~"
