"""What one nightly run did: its steps, and where each one's log is."""

from __future__ import annotations

import dataclasses
import datetime
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from cuwheel.system.output.documents import Schema
from cuwheel.system.quantities import plural
from cuwheel.system.whole_files import read_text
from cuwheel.workspace.serialization import from_json

if TYPE_CHECKING:
    from pathlib import Path

State = Literal["passed", "failed", "ended", "skipped"]
# The worst first.
STATES: tuple[State, ...] = ("failed", "ended", "skipped", "passed")
REPORT = "nightly.json"
OUT_OF_TIME = "the time limit was reached"  # detail of steps that it ended or kept from beginning


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
        """The worst of its steps; what is skipped for another reason than time is no fault."""
        found = {step.state for step in self.steps}
        if "failed" in found:
            return "failed"
        if not self.ended:
            return "running"
        return "ended" if "ended" in found or self.late_steps else "passed"

    @property
    def late_steps(self) -> tuple[Step, ...]:
        """Those that the time limit ended or kept from beginning."""
        return tuple(step for step in self.steps if step.detail == OUT_OF_TIME)

    @property
    def seconds(self) -> float:
        """From its start to its end, or to its last step."""
        if not self.ended:
            return sum(step.seconds for step in self.steps)
        times = (datetime.datetime.fromisoformat(one) for one in (self.started, self.ended))
        start, end = times
        return (end - start).total_seconds()

    @property
    def counts(self) -> str:
        """`6 steps: 1 failed, 5 passed`."""
        states = [step.state for step in self.steps]
        named = ", ".join(f"{states.count(one)} {one}" for one in STATES if one in states)
        return f"{plural(len(states), 'step')}: {named or 'none'}"


def read_run(folder: Path) -> NightlyRun:
    """The run whose report is in a folder.

    Raises:
        OSError: there is none.
        ValueError: it isn't one that this cuwheel wrote.
    """
    content = json.loads(read_text(folder / REPORT))
    try:
        NightlyRun.SCHEMA.take_from(content)
        steps = tuple(from_json(Step, step) for step in content.pop("steps"))
        return dataclasses.replace(from_json(NightlyRun, content), steps=steps)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{folder / REPORT} is not the record of a nightly run: {error}"
        ) from error


def now() -> str:
    """The time, in UTC, `2026-11-23T02:30:00+00:00`."""
    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
