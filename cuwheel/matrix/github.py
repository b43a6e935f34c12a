"""The matrix of a GitHub Actions job: what is to be built, one job each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cuwheel.errors import UsageError
from cuwheel.system.output.documents import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.matrix.state import CellState


# "A matrix will generate a maximum of 256 jobs per workflow run."
# https://docs.github.com/en/actions/reference/limits
MAX_JOBS = 256


@dataclass(frozen=True, kw_only=True)
class MatrixJob:
    """A job of the workflow: one cell to be built.

    Attributes:
        id: of the cell, `causal-conv1d-130-cp312-torch2.11`.
        target: recipe and toolkit, `causal-conv1d-130`.
        python: `3.12`.
        options: what stands behind `nox -s build --` for it.
        cache: name of the compile cache that it shares with cells of the same kernels.
    """

    id: str
    target: str
    python: str
    options: str
    cache: str


@dataclass(frozen=True, kw_only=True)
class MatrixDocument:
    """What `matrix --json` prints: what is to be built, as GitHub Actions takes it.

    Attributes:
        include: for `strategy.matrix.include`, one item for each cell that a build would build.
    """

    SCHEMA: ClassVar[Schema] = Schema("matrix", "1.0")

    include: tuple[MatrixJob, ...]


def matrix_document(states: Iterable[CellState]) -> MatrixDocument:
    """The cells that a build would build, as jobs.

    Raises:
        UsageError: there are more of them than one workflow run may have.
    """
    due = [state for state in states if state.is_due]
    if len(due) > MAX_JOBS:
        raise UsageError(
            f"{len(due)} cells have to be built, but a GitHub matrix has at most {MAX_JOBS} jobs",
            why="GitHub refuses a run with more",
            fix="select fewer: --only 'causal-conv1d-*', --python 3.12, --framework torch==2.11.0",
        )
    return MatrixDocument(include=tuple(map(_job, due)))


def _job(state: CellState) -> MatrixJob:
    target = state.cell.job.target
    return MatrixJob(
        id=state.cell.id,
        target=target.name,
        python=target.python,
        options=" ".join(state.cell.options),
        # Cells that share kernels share a compile cache.
        cache=state.cell.id.replace(f"-cp{target.python.replace('.', '')}", ""),
    )
