"""Results of builds that an executor runs."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.spelling import AS_MODULE
from cuwheel.base.system.quantities import GIB
from cuwheel.build.compile.memory.peaks import Peaks
from cuwheel.build.workspace.failure_record import FailureRecord, read_failure, write_failure
from cuwheel.lab.matrix.building import (
    LocalExecutor,
    Task,
    TaskResult,
    build_cells,
    memory_of,
    shards_of,
    task_of,
)
from cuwheel.lab.matrix.state import Cell
from tests.support.factories import heard, make_job, make_target, make_workspace
from tests.support.lab.matrices import make_cell


@dataclass(frozen=True)
class Ends:
    """An executor with given results; `write` stands in for what a build writes."""

    results: Sequence[TaskResult]
    write: Callable[[TaskResult], None] = lambda _: None

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
        assert {task.name for task in tasks} == {result.name for result in self.results}
        for result in self.results:
            self.write(result)
            yield result


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    workspace = make_workspace(tmp_path)
    return [
        make_cell(make_target(python=python), workspace, offline=True)
        for python in ("3.11", "3.12")
    ]


def _result(cell: Cell, **changes: object) -> TaskResult:
    ended = TaskResult(name=cell.id, status=0, where="node1", attempts=1)
    return dataclasses.replace(ended, **changes)  # type: ignore[arg-type]


def test_task_is_the_build_of_that_cell_alone(cells: list[Cell]) -> None:
    task = task_of(cells[1], 4)

    assert task.name == cells[1].id
    assert task.command[1 + len(AS_MODULE) :] == (
        *("build", "tiny-cuda-130", "--python", "3.12", "--offline"),
    )
    assert task.cores == 4


def _run(cells: list[Cell], executor: Ends) -> FailureRecord | None:
    """Build all cells, and return the failure of the first."""
    console = cells[0].job.workspace.console
    list(build_cells(cells, 4, executor, console, keeps_going=True))
    return read_failure(cells[0].job.workspace.dist, cells[0].id)


def test_lost_cell_has_failed(cells: list[Cell]) -> None:
    ends = Ends([_result(cells[0], status=None, attempts=3), _result(cells[1])])

    failure = _run(cells, ends)

    assert failure
    assert "lost 3 times, the last time on node1" in failure.why
    assert read_failure(cells[1].job.workspace.dist, cells[1].id) is None
    assert "1 of 2" in heard(cells[0].job.workspace)


def test_keeps_the_failure_that_a_build_recorded(cells: list[Cell]) -> None:
    def write(result: TaskResult) -> None:
        if result.status:
            write_failure(UsageError("its own text"), cells[0].job.workspace.dist, result.name)

    failure = _run(cells, Ends([_result(cells[0], status=2), _result(cells[1])], write))

    assert failure
    assert failure.what == "its own text"


def test_program_that_never_began_has_failed_with_its_log(cells: list[Cell]) -> None:
    task = task_of(cells[0], 4)
    task.log.parent.mkdir(parents=True)
    task.log.write_text("python: No module named cuwheel\n")
    write_failure(UsageError("of another day"), cells[0].job.workspace.dist, cells[0].id)

    failure = _run(cells, Ends([_result(cells[0], status=1), _result(cells[1])]))

    assert failure
    assert failure.what == f"{cells[0].id} wasn't built"
    log = cells[0].job.workspace.dist / ".cuwheel" / failure.log
    assert "No module named" in log.read_text()


def test_ends_at_the_first_failure_without_keep_going(cells: list[Cell]) -> None:
    ends = Ends([_result(cells[0], status=None), _result(cells[1])])
    console = cells[0].job.workspace.console

    states = list(build_cells(cells, 4, ends, console, keeps_going=False))

    assert [state.cell.id for state in states] == [cells[0].id]


def test_runs_one_after_the_other_and_shows_which(cells: list[Cell], tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    script = "import os, sys; open(sys.argv[1], 'a').write(os.environ['CUWHEEL_CELL'] + ' ')"
    tasks = [
        dataclasses.replace(
            task_of(cell, 1),
            command=(sys.executable, "-c", f"{script}; sys.exit({status})", str(noted)),
            environment=(("CUWHEEL_CELL", cell.id),),
        )
        for cell, status in zip(cells, (3, 0), strict=True)
    ]

    results = list(LocalExecutor(cells[0].job.workspace.console, os.environ).run(tasks))

    assert [(result.name, result.status) for result in results] == [
        (cells[0].id, 3),
        (cells[1].id, 0),
    ]
    assert noted.read_text().split() == [cell.id for cell in cells]
    assert f"{cells[1].id} (2 of 2)" in heard(cells[0].job.workspace)


_CORES = 3


def test_recipe_declares_it_without_measurements(tmp_path: Path) -> None:
    job = make_job(make_target(memory_per_job=2 * GIB), make_workspace(tmp_path))

    assert memory_of(job, _CORES) == GIB + _CORES * 2 * GIB


def test_largest_measured_compiles_count_together(tmp_path: Path) -> None:
    job = make_job(make_target(memory_per_job=GIB), make_workspace(tmp_path))
    peaks = Peaks(job.workspace.cache / "memory", job.target.recipe.name, 1)
    for number, peak in enumerate((1, 5, 2, 4)):
        peaks.learn("cicc", f"kernel{number}.cu 90", peak * GIB)

    assert memory_of(job, _CORES) == GIB + (5 + 4 + 2) * GIB


def test_one_compile_has_the_declared_memory(tmp_path: Path) -> None:
    job = make_job(make_target(memory_per_job=3 * GIB), make_workspace(tmp_path))
    Peaks(job.workspace.cache / "memory", job.target.recipe.name, 1).learn("cicc", "k.cu", 1)

    assert memory_of(job, _CORES) == GIB + 3 * GIB


def test_shards_of_a_cell_are_its_build_with_a_share(cells: list[Cell]) -> None:
    whole, shards = task_of(cells[0], 4), shards_of(cells[0], 4, 3)

    assert [shard.command for shard in shards] == [
        (*whole.command, "--shard", f"{number}/3") for number in (1, 2, 3)
    ]
    assert len({shard.log for shard in (*shards, whole)}) == 4


def test_cell_comes_after_its_shards_and_a_lost_shard_is_no_failure(
    cells: list[Cell], tmp_path: Path
) -> None:
    workspace = make_workspace(tmp_path)
    after: dict[str, tuple[str, ...]] = {}
    results = [
        TaskResult(name=f"{cells[0].id}.shard-1-of-2", status=0, where="node1"),
        TaskResult(name=f"{cells[0].id}.shard-2-of-2", status=None, where="node2"),
        _result(cells[0]),
    ]

    @dataclass(frozen=True)
    class Remembers(Ends):
        def run(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
            after.update({task.name: task.after for task in tasks})
            return super().run(tasks)

    states = list(
        build_cells(cells[:1], 1, Remembers(results), workspace.console, keeps_going=True, shards=2)
    )

    assert after[cells[0].id] == tuple(result.name for result in results[:2])
    assert [state.cell.id for state in states] == [cells[0].id]
    assert "shard-2-of-2: lost on node2; the cell's own build compiles" in heard(workspace)
    assert "1 of 1  " in heard(workspace)
