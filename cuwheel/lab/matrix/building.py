"""Builds of cells, each a program of its own: here one after the other, or on a cluster."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cuwheel.base.errors import CommandFailedError, CuwheelError, StepsFailedError
from cuwheel.base.paths import ROOT
from cuwheel.base.spelling import AS_MODULE
from cuwheel.base.system.console import Console
from cuwheel.base.system.process import attach
from cuwheel.base.system.quantities import GIB, plural
from cuwheel.base.system.regular_files import read_end
from cuwheel.build.compile.memory.peaks import known_peaks
from cuwheel.build.locks.framework_fit import settle_framework
from cuwheel.build.pipeline.rebuild_key import digest_of_key, key_of
from cuwheel.build.workspace.failure_record import failure_path, read_failure, write_failure
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.printed_error import print_error
from cuwheel.build.workspace.request import Shard
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.lab.matrix.state import Cell, CellState, read_states

_OVERHEAD = GIB  # bytes: the engine, the build backend with PyTorch, the compile cache
_TAIL = 20  # lines of a log that an error shows

ReadStates = Callable[[Sequence[Cell]], tuple[CellState, ...]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A cell's build as a program.

    Attributes:
        name: the cell's target id, `causal-conv1d-130-cp312-torch2.11`; of a shard, more after it.
        memory: bytes.
        after: names of tasks that have to end before it, however they end.
    """

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    folder: Path
    cores: int
    memory: int
    log: Path
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """The result of a task; its status is negative for a signal, None if no machine finished it."""

    name: str
    status: int | None
    where: str
    attempts: int = 1


class Executor(Protocol):
    """A runner of tasks."""

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
        """Yield the result of each task as it ends; closing the generator ends the others."""


@dataclass(frozen=True)
class LocalExecutor:
    """An executor that runs each task on this terminal, one at a time, as each fills the machine.

    A cell that shares kernels with an earlier one (several Pythons of one recipe, toolkit and
    framework) takes them out of the compile cache.
    """

    console: Console
    environ: Mapping[str, str]

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
        """Run them all and yield each result as it ends."""
        for number, task in enumerate(tasks, 1):
            self.console.heading(f"{task.name} ({number} of {len(tasks)})")
            status = attach(task.command, env={**self.environ, **dict(task.environment)})
            yield TaskResult(name=task.name, status=status, where=platform.node())


def task_of(cell: Cell, cores: int) -> Task:
    """Return a cell's build as a program."""
    return Task(
        name=cell.id,
        command=(sys.executable, *AS_MODULE, "build", *cell.request.argv()),
        # It decides if a job that a killed caller left behind builds the same cell.
        environment=(
            ("CUWHEEL_CELL", digest_of_key(key_of(cell.job))),
            ("PYTHONPATH", str(ROOT)),
        ),
        folder=cell.job.workspace.caller.project,
        cores=cores,
        memory=memory_of(cell.job, cores),
        log=failure_path(cell.job.workspace.dist, cell.id).with_name(f"{cell.id}.log"),
    )


def shards_of(cell: Cell, cores: int, count: int) -> tuple[Task, ...]:
    """Return the shards of a cell's build as programs that don't wait for each other."""
    whole = task_of(cell, cores)
    return tuple(
        replace(
            whole,
            name=f"{whole.name}.shard-{number}-of-{count}",
            command=(*whole.command, "--shard", str(Shard(number, count))),
            log=whole.log.with_name(f"{whole.name}.shard-{number}.log"),
        )
        for number in range(1, count + 1)
    )


def lock_cells(due: Sequence[Cell], console: Console, *, keeps_going: bool) -> list[Cell]:
    """Return the cells with locks, made here: nodes would all write the same one.

    A cell without one has failed; without `keeps_going` none is returned then.
    """
    ready = []
    for cell in due:
        try:
            workspace = bare_workspace(console, cell.job.workspace.caller)
            settle_framework(cell.job.target, workspace, offline=cell.request.offline)
        except CuwheelError as error:  # noqa: PERF203 - each is reported
            write_failure(error, cell.job.workspace.dist, cell.id)
            print_error(error, console)
            if not keeps_going:
                return []
        else:
            ready.append(cell)
    return ready


def build_cells(  # noqa: PLR0913 - `read` differs in a container
    due: Sequence[Cell],
    cores: int,
    executor: Executor,
    console: Console,
    *,
    keeps_going: bool,
    read: ReadStates = read_states,
    shards: int = 1,
) -> Iterator[CellState]:
    """Run the builds of cells by an executor, and yield the state of each after its build.

    Args:
        shards: how many tasks fill the compile cache for each cell before its build; 1: none.
        read: returns the states of cells; of those built in a container only one there can.
    """
    cells = {cell.id: cell for cell in due}
    tasks = {cell.id: task_of(cell, cores) for cell in due}
    parts = {cell.id: shards_of(cell, cores, shards) for cell in due if shards > 1}
    for name, of_cell in parts.items():
        tasks[name] = replace(tasks[name], after=tuple(part.name for part in of_cell))
    every = [part for of_cell in parts.values() for part in of_cell] + [*tasks.values()]
    before = {cell.id: read_failure(cell.job.workspace.dist, cell.id) for cell in due}
    number = 0
    for result in executor.run(tuple(every)):
        if result.name not in cells:
            console.note(_describe_shard(result))
            continue
        number, cell = number + 1, cells[result.name]
        failure = read_failure(cell.job.workspace.dist, cell.id)
        if result.status is None or (result.status and failure == before[cell.id]):
            _record_failure(cell, tasks[cell.id], result)
        [state] = read([cell])
        again = f", started {result.attempts} times" if result.attempts > 1 else ""
        console.note(
            f"{number} of {len(due)}  {cell.id}: {state.kind} on {result.where or 'no machine'}"
            f"{again}  {state.sha256 or state.detail}"
        )
        yield state
        if state.kind == "failed" and not keeps_going:
            return


def _describe_shard(result: TaskResult) -> str:
    where = result.where or "no machine"
    if result.status == 0:
        return f"{result.name}: ended on {where}"
    end = "lost" if result.status is None else f"failed with status {result.status}"
    return f"{result.name}: {end} on {where}; the cell's own build compiles what is missing"


def check_all_built(states: Sequence[CellState]) -> None:
    """Raise an error if a cell of a matrix failed.

    Raises:
        StepsFailedError: some did.
    """
    failed = [state for state in states if state.kind == "failed"]
    if failed:
        raise StepsFailedError(
            f"{len(failed)} of {plural(len(states), 'cell')} failed",
            why="\n".join(f"{state.cell.id}: {state.detail}" for state in failed),
            fix="see the table and the log of each; the same command then builds only these",
        )


def _record_failure(cell: Cell, task: Task, result: TaskResult) -> None:
    """Record the failure of a build that recorded none itself: it was lost, or didn't start."""
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


def memory_of(job: Job, cores: int) -> int:
    """Return the bytes for a build with so many compiles at once.

    It is the sum of the largest compiles that builds with this cache have measured, or the recipe's
    declared memory for each. With less, the memory gate runs fewer compiles at once
    (docs/adr/0017).
    """
    declared = job.target.recipe.memory_per_job
    records = known_peaks(job.workspace.cache / "memory", job.target.recipe.name)
    peaks = [peak for peak, *_ in records]
    return _OVERHEAD + (max(declared, sum(peaks[:cores])) if peaks else declared * cores)
