"""A cell of the matrix, and how it stands: built, outdated, failed, missing, or impossible."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from cuwheel import pipeline
from cuwheel.workspace.failure_record import read_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.workspace.job import Job


Kind = Literal["built", "outdated", "failed", "missing", "impossible"]
KINDS: tuple[Kind, ...] = ("built", "outdated", "failed", "missing", "impossible")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One wheel that the recipes could give.

    Attributes:
        job: its build, on this machine.
        options: what stands behind `build` for it alone: target, Python, framework.
        impossible: why there can be no such wheel, whatever is done; empty: there can.
    """

    job: Job
    options: tuple[str, ...]
    impossible: str = ""

    @property
    def id(self) -> str:
        """`causal-conv1d-130-cp312-torch2.11`."""
        return self.job.target.id


@dataclass(frozen=True, kw_only=True)
class CellState:
    """How a cell stands.

    Attributes:
        cell: the cell.
        kind: see the module.
        detail: why it is outdated, failed or impossible; of a built one, its compiles.
        date: when it was built or failed, in UTC; empty for the others.
        wheel: file name; empty where there is none.
        sha256: of the wheel.
        size: bytes of the wheel.
        seconds: its build took, all stages; None where it isn't built.
        anchor: of TROUBLESHOOTING.md, where the failure is explained.
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
        """Whether a build of the matrix builds it."""
        return self.kind in {"outdated", "failed", "missing"}


def read_states(cells: Iterable[Cell]) -> tuple[CellState, ...]:
    """How each cell stands, by what is beside the wheels."""
    return tuple(read_state(cell) for cell in cells)


def read_state(cell: Cell) -> CellState:
    """How a cell stands."""
    if cell.impossible:
        return CellState(cell=cell, kind="impossible", detail=cell.impossible)
    there = pipeline.published(cell.job)
    failure = read_failure(cell.job.workspace.dist, cell.id)
    if failure and not (there and not there.outdated):
        return CellState(
            cell=cell,
            kind="failed",
            detail=failure.what,
            date=failure.date,
            anchor=failure.anchor,
            log=failure.log,
        )
    if there is None:
        return CellState(cell=cell, kind="missing")
    summary = there.summary
    return CellState(
        cell=cell,
        kind="outdated" if there.outdated else "built",
        detail=_short(there.outdated) if there.outdated else summary.cache,
        date=there.date,
        wheel=summary.wheel,
        sha256=summary.sha256,
        size=summary.size,
        seconds=sum(seconds for _, seconds in summary.durations),
    )


def as_data(states: Iterable[CellState]) -> list[dict[str, Any]]:
    """What can be told of cells to another cuwheel that has the same ones."""
    told = [field.name for field in fields(CellState) if field.name != "cell"]
    return [
        {"id": state.cell.id, **{name: getattr(state, name) for name in told}} for state in states
    ]


def from_data(cells: Iterable[Cell], data: Iterable[Mapping[str, Any]]) -> tuple[CellState, ...]:
    """How cells stand, as another cuwheel has told it with `as_data`."""
    told = {item["id"]: {name: item[name] for name in item if name != "id"} for item in data}
    return tuple(CellState(cell=cell, **told[cell.id]) for cell in cells)


def _short(reasons: tuple[str, ...]) -> str:
    """The first reason, and how many more there are."""
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"
