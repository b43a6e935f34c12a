"""Cells as programs that an executor runs somewhere: what is started, and what its end means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cuwheel.build.rebuild_key import digest_of_key, key_of
from cuwheel.errors import CommandFailedError
from cuwheel.matrix.executor import Task
from cuwheel.matrix.resources import memory_of
from cuwheel.matrix.state import read_states
from cuwheel.paths import project_folder
from cuwheel.system.whole_files import read_end
from cuwheel.workspace.failure_record import failure_path, read_failure, write_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cuwheel.matrix.executor import Executor, Result
    from cuwheel.matrix.state import Cell, CellState
    from cuwheel.system.console import Console
    from cuwheel.workspace.failure_record import FailureRecord


_TAIL = 20  # lines of a log that an error shows


def task_of(cell: Cell, options: Sequence[str], cores: int) -> Task:
    """A cell's build as a program of its own, on any machine that sees the same folders.

    Args:
        cell: what to build.
        options: of `build`, beside the cell's own.
        cores: that it may use.
    """
    command = (sys.executable, "-m", "cuwheel", "build", *cell.options, *options)
    return Task(
        name=cell.id,
        command=command,
        # A job that a killed caller left is of this very cell only where this is the same.
        environment=(("CUWHEEL_CELL", digest_of_key(key_of(cell.job))),),
        folder=project_folder(),
        cores=cores,
        memory=memory_of(cell.job, cores),
        log=failure_path(cell.job.workspace.dist, cell.id).with_name(f"{cell.id}.log"),
    )


def build_distributed(  # noqa: PLR0913 - what, by whom, and how it is told
    due: Sequence[Cell],
    tasks: Sequence[Task],
    executor: Executor,
    console: Console,
    *,
    keeps_going: bool,
    read: Callable[[Sequence[Cell]], tuple[CellState, ...]] = read_states,
) -> Iterator[CellState]:
    """Run the builds of cells elsewhere.

    Args:
        due: what to build.
        tasks: their programs, in the same order.
        executor: runs them.
        console: told of each as it ends.
        keeps_going: let the others go on although one has failed.
        read: says how cells stand; of those that are built in a container only one there can.

    Yields:
        How each one stands when it has come to its end.
    """
    cells = {cell.id: cell for cell in due}
    started = {task.name: task for task in tasks}
    before = {cell.id: _recorded(cell) for cell in due}
    for number, result in enumerate(executor.run(tasks), 1):
        cell = cells[result.name]
        is_told = result.status is not None and _recorded(cell) != before[cell.id]
        if result.status != 0 and not is_told:
            _record_silent_end(cell, started[result.name], result)
        [state] = read([cell])
        again = f", started {result.attempts} times" if result.attempts > 1 else ""
        console.note(
            f"{number} of {len(due)}  {cell.id}: {state.kind} on {result.where or 'no machine'}"
            f"{again}  {state.sha256 or state.detail}"
        )
        yield state
        if state.kind == "failed" and not keeps_going:
            return


def _record_silent_end(cell: Cell, task: Task, result: Result) -> None:
    """Record the failure of a build that couldn't: it was lost, or ended before it began."""
    lost = result.status is None
    lines = read_end(task.log).splitlines() if task.log.is_file() else []
    error = CommandFailedError(
        f"{cell.id}: no machine finished the build" if lost else f"{cell.id} wasn't built",
        command=task.command,
        status=-9 if result.status is None else result.status,
        log=task.log if lines else None,
        tail=lines[-_TAIL:],
        why=f"it was lost {result.attempts} times, the last time on {result.where or 'no machine'}"
        if lost
        else "",
    )
    write_failure(error, cell.job.workspace.dist, cell.id)


def _recorded(cell: Cell) -> FailureRecord | None:
    return read_failure(cell.job.workspace.dist, cell.id)
