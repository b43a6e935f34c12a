"""The GitHub matrix: only what is to be built, and never more than a run may have."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.matrix.github import MAX_JOBS, matrix_document
from cuwheel.matrix.state import KINDS, Cell, CellState, Kind
from tests.support.factories import make_job, make_target, make_workspace

if TYPE_CHECKING:
    from pathlib import Path


def _state(folder: Path, kind: Kind) -> CellState:
    target = make_target(python="3.12")
    cell = Cell(
        job=make_job(target, make_workspace(folder)),
        options=("tiny-cuda-130", "--python", "3.12", "--framework", "torch==2.13.0"),
    )
    return CellState(cell=cell, kind=kind)


def test_names_what_a_job_passes_on(tmp_path: Path) -> None:
    made = matrix_document([_state(tmp_path, "missing")])

    [item] = made.include
    assert dataclasses.asdict(item) == {
        "id": "tiny-cuda-130-cp312",
        "target": "tiny-cuda-130",
        "python": "3.12",
        "options": "tiny-cuda-130 --python 3.12 --framework torch==2.13.0",
        "cache": "tiny-cuda-130",
    }


def test_leaves_out_what_needs_no_build(tmp_path: Path) -> None:
    made = matrix_document(_state(tmp_path, kind) for kind in KINDS)

    assert len(made.include) == len(KINDS) - 2


def test_refuses_more_than_a_run_may_have(tmp_path: Path) -> None:
    many = [_state(tmp_path, "missing")] * (MAX_JOBS + 1)

    assert len(matrix_document(many[1:]).include) == MAX_JOBS
    with pytest.raises(UsageError, match="257 cells have to be built"):
        matrix_document(many)
