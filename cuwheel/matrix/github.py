"""The matrix of a GitHub Actions job: what is to be built, one job each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.matrix.state import CellState


# "A matrix will generate a maximum of 256 jobs per workflow run."
# https://docs.github.com/en/actions/reference/limits
MAX_JOBS = 256


def as_github_matrix(states: Iterable[CellState]) -> dict[str, list[dict[str, str]]]:
    """What `strategy.matrix` takes through `fromJSON`: a list `include`, one item for each cell
    that a build would build.

    Raises:
        UsageError: there are more of them than one workflow run may have.
    """  # noqa: D205 - one sentence
    due = [state for state in states if state.is_due]
    if len(due) > MAX_JOBS:
        raise UsageError(
            f"{len(due)} cells are to be built, and a matrix of GitHub has {MAX_JOBS} jobs at most",
            why="a run with more is refused as a whole",
            fix="name fewer: --only 'causal-conv1d-*', --python 3.12, --framework torch==2.11.0",
        )
    return {"include": [_item(state) for state in due]}


def _item(state: CellState) -> dict[str, str]:
    target = state.cell.job.target
    return {
        "id": state.cell.id,
        "target": target.name,
        "python": target.python,
        "options": " ".join(state.cell.options),
        # Cells that share kernels share a compile cache.
        "cache": state.cell.id.replace(f"-cp{target.python.replace('.', '')}", ""),
    }
