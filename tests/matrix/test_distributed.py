"""Cells whose builds run as programs elsewhere: what their ends come to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.matrix.distributed import build_distributed, task_of
from cuwheel.matrix.executor import Result
from cuwheel.matrix.state import Cell
from cuwheel.workspace.failure_record import read_failure, write_failure
from tests.support.factories import heard, make_job, make_target, make_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cuwheel.matrix.executor import Task


@dataclass(frozen=True)
class Ends:
    """An executor whose tasks end as told; each has written what it would have written."""

    results: Sequence[Result]
    write: Callable[[Result], None] = lambda _: None

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        assert {task.name for task in tasks} == {result.name for result in self.results}
        for result in self.results:
            self.write(result)
            yield result


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    made = make_workspace(tmp_path)
    return [
        Cell(job=make_job(make_target(python=python), made), options=("tiny-cuda-130",))
        for python in ("3.11", "3.12")
    ]


def _result(cell: Cell, **changes: object) -> Result:
    ended = Result(name=cell.id, status=0, output="{}", where="node1", attempts=1)
    return dataclasses.replace(ended, **changes)  # type: ignore[arg-type]


def _tasks(cells: list[Cell]) -> list[Task]:
    return [task_of(cell, ["--json", "--offline"], 4) for cell in cells]


def test_task_is_the_build_of_that_cell_alone(cells: list[Cell]) -> None:
    task = _tasks(cells)[1]

    assert task.name == cells[1].id
    assert task.command[3:] == ("build", "tiny-cuda-130", "--json", "--offline")
    assert task.cores == 4


def test_lost_cell_has_failed_and_says_how_often(cells: list[Cell]) -> None:
    ends = Ends([_result(cells[0], status=None, attempts=3), _result(cells[1])])
    console = cells[0].job.workspace.console

    list(build_distributed(cells, _tasks(cells), ends, console, keeps_going=True))

    failure = read_failure(cells[0].job.workspace.dist, cells[0].id)
    assert failure
    assert "lost 3 times, the last time on node1" in failure.why
    assert read_failure(cells[1].job.workspace.dist, cells[1].id) is None
    assert "1 of 2" in heard(cells[0].job.workspace)


def test_failure_that_a_build_recorded_itself_is_kept(cells: list[Cell]) -> None:
    def write(result: Result) -> None:
        if result.status:
            write_failure(UsageError("its own words"), cells[0].job.workspace.dist, result.name)

    ends = Ends([_result(cells[0], status=2), _result(cells[1])], write)
    console = cells[0].job.workspace.console

    list(build_distributed(cells, _tasks(cells), ends, console, keeps_going=True))

    failure = read_failure(cells[0].job.workspace.dist, cells[0].id)
    assert failure
    assert failure.what == "its own words"


def test_program_that_never_began_has_failed_with_its_log(cells: list[Cell]) -> None:
    task = _tasks(cells)[0]
    task.log.parent.mkdir(parents=True)
    task.log.write_text("python: No module named cuwheel\n")
    write_failure(UsageError("of another day"), cells[0].job.workspace.dist, cells[0].id)
    ends = Ends([_result(cells[0], status=1), _result(cells[1])])
    console = cells[0].job.workspace.console

    list(build_distributed(cells, _tasks(cells), ends, console, keeps_going=True))

    failure = read_failure(cells[0].job.workspace.dist, cells[0].id)
    assert failure
    assert failure.what == f"{cells[0].id} wasn't built"
    log = cells[0].job.workspace.dist / ".cuwheel" / failure.log
    assert "No module named" in log.read_text()


def test_first_failure_ends_it_where_asked(cells: list[Cell]) -> None:
    ends = Ends([_result(cells[0], status=None), _result(cells[1])])
    console = cells[0].job.workspace.console

    found = list(build_distributed(cells, _tasks(cells), ends, console, keeps_going=False))

    assert [state.cell.id for state in found] == [cells[0].id]
