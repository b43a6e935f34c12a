"""Cells of the matrix and their states: built, outdated, failed, missing, or impossible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from cuwheel.base.system.quantities import first_of
from cuwheel.build.pipeline.published import outdated_reasons, read_build
from cuwheel.build.pipeline.rebuild_key import key_of
from cuwheel.build.workspace.failure_record import read_failure
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.request import BuildRequest

Kind = Literal["built", "outdated", "failed", "missing", "impossible"]
# Options that cells of one matrix differ by, or that decide which wheel they are.
_OF_CELL = ("python", "framework", "link", "toolchain", "host_compiler", "platform")
KINDS: tuple[Kind, ...] = ("built", "outdated", "failed", "missing", "impossible")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A wheel that the recipes allow; `impossible` is why there can be none, or empty."""

    job: Job
    impossible: str = ""

    @property
    def request(self) -> BuildRequest:
        """The build of it alone, which may install what it needs."""
        return replace(self.job.settings, dry_run=False)

    @property
    def options(self) -> tuple[str, ...]:
        """Arguments of `build` that choose it, without those that all cells have in common."""
        return self.request.argv("targets", *_OF_CELL)

    @property
    def id(self) -> str:
        """`causal-conv1d-130-cp312-torch2.11`."""
        return self.job.target.id


@dataclass(frozen=True, kw_only=True)
class CellState:
    """The state of a cell.

    Attributes:
        detail: why it is outdated, failed or impossible; of a built one, its compiles.
        date: of the build or failure, in UTC; empty for the others.
        wheel: file name; empty where there is none.
        size: bytes of the wheel.
        seconds: of the build, all stages; None where it isn't built.
        log: name of the failed build's log in `dist/.cuwheel`; empty where there is none.
    """

    cell: Cell
    kind: Kind
    detail: str = ""
    date: str = ""
    wheel: str = ""
    sha256: str = ""
    size: int = 0
    seconds: float | None = None
    anchor: str = ""
    log: str = ""

    @property
    def is_due(self) -> bool:
        """True if a build of the matrix builds it."""
        return self.kind in {"outdated", "failed", "missing"}


def read_states(cells: Iterable[Cell]) -> tuple[CellState, ...]:
    """Return the state of each cell, read from the records in the folder of wheels."""
    return tuple(read_state(cell) for cell in cells)


def read_state(cell: Cell) -> CellState:
    """Return the state of a cell."""
    if cell.impossible:
        return CellState(cell=cell, kind="impossible", detail=cell.impossible)
    job, dist = cell.job, cell.job.workspace.dist
    record, failure = read_build(job), read_failure(dist, cell.id)
    if record and not (dist / record.summary.wheel).is_file():
        record = None
    reasons = outdated_reasons(record, key_of(job), job) if record else ()
    if failure and (record is None or reasons):
        return CellState(
            cell=cell,
            kind="failed",
            detail=failure.what,
            date=failure.date,
            anchor=failure.anchor,
            log=failure.log,
        )
    if record is None:
        return CellState(cell=cell, kind="missing")
    summary = record.summary
    return CellState(
        cell=cell,
        kind="outdated" if reasons else "built",
        detail=first_of(reasons, 1) if reasons else summary.cache,
        date=record.date,
        wheel=summary.wheel,
        sha256=summary.sha256,
        size=summary.size,
        seconds=sum(seconds for _, seconds in summary.durations),
    )


def as_data(states: Iterable[CellState]) -> list[dict[str, Any]]:
    """Return states for another cuwheel process that has the same cells."""
    names = [field.name for field in fields(CellState) if field.name != "cell"]
    return [
        {"id": state.cell.id, **{name: getattr(state, name) for name in names}} for state in states
    ]


def from_data(cells: Iterable[Cell], data: Iterable[Mapping[str, Any]]) -> tuple[CellState, ...]:
    """Return the states of cells from what `as_data` returned."""
    values = {item["id"]: {name: item[name] for name in item if name != "id"} for item in data}
    return tuple(CellState(cell=cell, **values[cell.id]) for cell in cells)
