"""The record of a nightly run, its steps with their logs, and the folders of the reports."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.folders.output_folder import FolderKind, claim, has_marker
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.workspace.serialization import from_json

State = Literal["passed", "failed", "ended", "skipped"]
STATES: tuple[State, ...] = ("failed", "ended", "skipped", "passed")  # the worst first
REPORT = "nightly.json"
OUT_OF_TIME = "the time limit was reached"  # detail of steps that it ended or prevented
LATEST = "latest"
_RUN = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(-\d+)?")
NIGHTLY_FOLDER = FolderKind(name="nightly", what="a folder of reports of `nox -s nightly`")
RUN_FOLDER = FolderKind(name="nightly run", what="a report of `nox -s nightly`")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a run.

    Attributes:
        name: `update`, `diagnose`, `plan`, `build`, `smoke` or `perf`.
        about: target or cell, `causal-conv1d-130-cp312-torch2.11`; empty: the machine.
        state: `ended`: by the time limit or by a person, before it was through.
        detail: what it found; of one that isn't `passed`, why.
        seconds: that it took.
        log: relative to the report; empty without one.
        pages: other files of the step, relative to the report.
        explanation: what `explain` says of its log; empty where it didn't fail.
    """

    name: str
    about: str = ""
    state: State = "passed"
    detail: str = ""
    seconds: float = 0.0
    log: str = ""
    pages: tuple[str, ...] = ()
    explanation: str = ""

    @property
    def title(self) -> str:
        """`build causal-conv1d-130-cp312-torch2.11`."""
        return f"{self.name} {self.about}".strip()


@dataclass(frozen=True, kw_only=True)
class NightlyRun:
    """A run; what `nightly.json` holds and `nightly --json` prints.

    Attributes:
        started: when, in UTC, `2026-11-23T02:30:00+00:00`.
        host: name of the machine.
        commit: of the checkout; empty where it is no git repository.
        gpus: names of those that it uses.
        driver: NVIDIA's; empty without one.
        steps: so far.
        ended: when; empty while it runs, or where it was killed.
    """

    SCHEMA: ClassVar[Schema] = Schema("nightly", "1.0")

    started: str
    host: str
    commit: str = ""
    gpus: tuple[str, ...] = ()
    driver: str = ""
    steps: tuple[Step, ...] = ()
    ended: str = ""

    @property
    def state(self) -> State | Literal["running"]:
        """The worst state of its steps; skipped ones count only where time ran out."""
        states = {step.state for step in self.steps}
        if "failed" in states:
            return "failed"
        if not self.ended:
            return "running"
        return "ended" if "ended" in states or self.late_steps else "passed"

    @property
    def late_steps(self) -> tuple[Step, ...]:
        """Steps that the time limit ended or prevented."""
        return tuple(step for step in self.steps if step.detail == OUT_OF_TIME)

    @property
    def seconds(self) -> float:
        """Seconds from its start to its end; until it has ended, those of its steps."""
        if not self.ended:
            return sum(step.seconds for step in self.steps)
        start, end = map(datetime.datetime.fromisoformat, (self.started, self.ended))
        return (end - start).total_seconds()

    @property
    def counts(self) -> str:
        """`6 steps: 1 failed, 5 passed`."""
        states = [step.state for step in self.steps]
        named = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
        return f"{plural(len(states), 'step')}: {named or 'none'}"


def read_run(folder: Path) -> NightlyRun:
    """Read the report in a run's folder.

    Raises:
        OSError: there is none.
        ValueError: another release of cuwheel wrote it, or it is damaged.
    """
    content = parse_json(read_text(folder / REPORT))
    try:
        NightlyRun.SCHEMA.take_from(content)
        return from_json(NightlyRun, content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{folder / REPORT} is not the record of a nightly run: {error}"
        ) from error


def now() -> str:
    """Return the time in UTC, `2026-11-23T02:30:00+00:00`."""
    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")


def new_run_folder(reports: Path, started: str) -> Path:
    """Make a run's folder, `2026-11-23T02-30-00Z`, from its start in UTC.

    Raises:
        OSError: it can't be made.
    """
    claim(reports, NIGHTLY_FOLDER)
    name = started.partition("+")[0].replace(":", "-") + "Z"
    number = 1
    while True:
        folder = reports / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:  # of another GPU's run that began in the same second
            number += 1
        else:
            claim(folder, RUN_FOLDER)
            return folder


def publish(run: Path) -> None:
    """Replace the link `latest`, atomically.

    Raises:
        OSError: it can't be written.
    """
    link = run.parent / f".{LATEST}.{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(run.name)
    if (run.parent / LATEST).is_symlink() or not os.path.lexists(run.parent / LATEST):
        link.replace(run.parent / LATEST)
    else:  # the user's file
        link.unlink()


def earlier_runs(run: Path) -> Iterator[tuple[str, NightlyRun]]:
    """Yield names and reports of earlier runs, the newest first; not of those without a report."""
    for folder in reversed(_runs(run.parent)):
        if folder.name < run.name and (report := _read(folder)):
            yield folder.name, report


def remove_old_runs(current: Path, keep: int) -> tuple[str, ...]:
    """Remove all but the newest runs, and return their names.

    A run without an end may still be active until the next day.
    """
    latest = (current.parent / LATEST).resolve()
    runs = [run for run in _runs(current.parent) if has_marker(run, RUN_FOLDER)]
    removed = []
    for run in runs[:-keep]:
        report = _read(run)
        has_ended = (report and report.ended) or run.name < current.name[:10]
        if run not in {current, latest} and has_ended:
            remove_tree(run)
            removed.append(run.name)
    return tuple(removed)


def _read(folder: Path) -> NightlyRun | None:
    try:
        return read_run(folder)
    except (OSError, ValueError):  # killed before its first step
        return None


def _runs(reports: Path) -> list[Path]:
    return sorted(path for path in reports.iterdir() if _RUN.fullmatch(path.name) and path.is_dir())
