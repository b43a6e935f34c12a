"""Tasks as Slurm jobs: each on one node, again where the node was lost, never twice at once.

Those with equal needs that are ready together are one job array, such as the shards of a build.

submitit writes the job's script, and transfers the task and its result. This module decides
(docs/adr/0024) which jobs are lost and which ones a restarted run takes over, and ends the job on a
node that only seems to be dead before the next one begins.
"""

from __future__ import annotations

import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cuwheel.base.errors import PreflightError
from cuwheel.base.system.files import file_lock, remove_tree
from cuwheel.base.system.folders.output_folder import claim
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.base.system.regular_files import read_end
from cuwheel.build.workspace.workspace import SCRATCH_FOLDER
from cuwheel.lab.matrix.building import Task, TaskResult
from cuwheel.lab.matrix.slurm_job import (
    Attempt,
    RefusedError,
    SlurmJob,
    attempts_at,
    cancel,
    check_slurm,
    new_attempt,
    own_jobs,
    result_of,
    submit,
)

_SUBMISSIONS = ".submissions"  # the folder of submitit's files
_TICK = 1.0  # seconds between two searches for results
_LEASE = 5.0  # seconds in which a job that was given up ends its program
# Statuses of a program that was ended with its job, or for its memory: by the signal, or as shells
# and cuwheel report it.
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_KILLED: dict[int | None, str] = {
    status: sent.name for sent in _ENDING for status in (-sent, 128 + sent)
}
_TAIL = 20  # lines of a lost job's own output that the task's log gets
# The node's message if it ended a job for its memory, with control groups and without.
_OUT_OF_MEMORY = re.compile(r"OUT_OF_MEMORY|oom.kill|exceeded .*memory limit", re.IGNORECASE)


@dataclass(kw_only=True)
class _Cell:
    """A task and its progress."""

    task: Task
    memory: int  # bytes that its next job gets
    attempt: Attempt | None = None  # the one that is submitted
    attempts: int = 0
    given_up: bool = False
    not_before: float = 0.0  # of time.monotonic(): when it may be submitted
    unlocked_at: int = 0  # beat of its job when its lock was free on this machine
    over_since: float | None = None  # of time.monotonic(): when its job was first not active
    node: str = ""


@dataclass(frozen=True, kw_only=True)
class SlurmExecutor:
    """Runs tasks as jobs of a Slurm cluster.

    Attributes:
        folder: for the jobs' files, on a disk that all nodes mount at the same path.
        partition: empty: the cluster's default.
        time_limit: minutes of a job.
        interval: seconds between two queries of Slurm's controller.
        settle: seconds that a result may take to appear on this machine after its job has ended.
        note: prints a line on progress.
    """

    folder: Path
    partition: str = ""
    time_limit: int
    retries: int = 2
    at_once: int = 100
    interval: float = 10.0
    settle: float = 15.0
    note: Callable[[str], None] = field(default=lambda _: None)

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskResult]:
        """Run all tasks, and yield each result as it ends.

        A job is lost when it is over without a result (its node failed, Slurm cancelled or
        preempted it, its time was up), or when a signal from outside ended its program. It is
        submitted again, with twice the memory where it ran out of that. A program that exits by
        itself, with any status, isn't. A task is submitted when those that it comes after have
        ended.

        Jobs that a killed caller left in this `folder` are continued where the task is the same.
        Any other end of the loop, Ctrl-C too, cancels the jobs. A result's files are removed when
        the next one is requested.

        Raises:
            PreflightError: there is no Slurm here, it doesn't answer, or lacks this partition.
        """
        check_slurm(self.partition)
        claim(self.folder, SCRATCH_FOLDER)
        wait = f"another run uses {self.folder} for its jobs; waiting for it"
        with file_lock(self.folder / "lock", on_wait=lambda: self.note(wait)):
            jobs = own_jobs()
            if jobs is None:
                raise PreflightError(
                    "Slurm's controller doesn't answer",
                    why="nothing is submitted before it lists the running jobs",
                    fix="check that `squeue` works here, then run the same command again",
                )
            cells = [self._cell(task, jobs) for task in tasks]
            self._tidy(cells)
            try:
                yield from self._results(cells)
            except BaseException:
                self._cancel(cells)
                raise
            self._tidy([])

    def _cell(self, task: Task, jobs: Sequence[SlurmJob]) -> _Cell:
        """Continue the job of a killed run that is for the same task; end those for others."""
        attempts = attempts_at(self.folder, task.name)
        if not attempts:
            return _Cell(task=task, memory=task.memory)
        if attempts[-1].is_for(task):
            ids = " ".join(job.id for job in attempts[-1].own(jobs))
            self.note(
                f"{task.name}: continued from the previous run: job {ids or 'that has ended'}"
            )
            return _Cell(
                task=task, memory=task.memory, attempt=attempts[-1], attempts=attempts[-1].number
            )
        cancel(job for attempt in attempts for job in attempt.own(jobs))
        remove_tree(self.folder / task.name)
        return _Cell(task=task, memory=task.memory, not_before=time.monotonic() + _LEASE)

    def _tidy(self, cells: Sequence[_Cell]) -> None:
        """Remove submitit's files, but for jobs that go on."""
        attempts = [cell.attempt.submission for cell in cells if cell.attempt]
        needed = {submission.folder for submission in attempts if submission}
        for folder in (self.folder / _SUBMISSIONS).glob("*"):
            if folder not in needed:
                remove_tree(folder)

    def _results(self, cells: list[_Cell]) -> Iterator[TaskResult]:
        checked = float("-inf")
        while cells:
            for cell in list(cells):
                if result := self._result(cell):
                    yield result
                    remove_tree(self.folder / cell.task.name)
                    cells.remove(cell)
            self._submit_some(cells)
            if time.monotonic() - checked >= self.interval:
                self._check_jobs(cells)
                checked = time.monotonic()
            if cells:
                time.sleep(_TICK)

    def _result(self, cell: _Cell) -> TaskResult | None:
        """Return a cell's result if it has ended or was given up."""
        result = result_of(cell.attempt) if cell.attempt else None
        if result and result.status in _KILLED:
            self._lose(cell, f"its program was ended by {_KILLED[result.status]}", result.where)
        elif result:
            return result
        if not cell.given_up:
            return None
        return TaskResult(name=cell.task.name, status=None, where=cell.node, attempts=cell.attempts)

    def _submit_some(self, cells: list[_Cell]) -> None:
        free = self.at_once - sum(cell.attempt is not None for cell in cells)
        open_ = {cell.task.name for cell in cells}
        ready = (
            cell
            for cell in cells
            if cell.attempt is None
            and not cell.given_up
            and cell.not_before <= time.monotonic()
            and open_.isdisjoint(cell.task.after)
        )
        groups: dict[tuple[int, int], list[_Cell]] = {}
        for cell, _ in zip(ready, range(free), strict=False):
            groups.setdefault((cell.task.cores, cell.memory), []).append(cell)
        for group in groups.values():
            self._submit(group)

    def _submit(self, cells: Sequence[_Cell]) -> None:
        """Submit cells with equal needs; each alone where Slurm refuses all of them at once."""
        attempts = [new_attempt(self.folder, cell.task, cell.attempts + 1) for cell in cells]
        folder = self.folder / _SUBMISSIONS / secrets.token_hex(4)
        try:
            numbers = submit(
                [(cell.task, attempt) for cell, attempt in zip(cells, attempts, strict=True)],
                folder,
                memory=cells[0].memory,
                partition=self.partition,
                time_limit=self.time_limit,
            )
        except RefusedError as error:
            for path in (folder, *(attempt.folder for attempt in attempts)):
                remove_tree(path)
            self._refuse(cells, error)
            return
        for cell, attempt, number in zip(cells, attempts, numbers, strict=True):
            cell.attempt, cell.attempts, cell.over_since = attempt, attempt.number, None
            cell.unlocked_at = 0
            self._note(cell, f"job {number} submitted")

    def _refuse(self, cells: Sequence[_Cell], error: RefusedError) -> None:
        for cell in cells:
            cell.not_before = time.monotonic() + self.interval
        if own_jobs() is None:
            return  # the controller doesn't answer, and is tried again
        if len(cells) > 1:  # such as more than MaxArraySize
            for cell in cells:
                self._submit([cell])
            return
        cells[0].given_up = True
        self._log(cells[0], f"sbatch fails: {error}")

    def _check_jobs(self, cells: list[_Cell]) -> None:
        jobs = own_jobs()
        if jobs is None:
            return  # the controller may be restarted; jobs go on without it
        for cell in cells:
            if cell.attempt:
                self._check_job(cell, cell.attempt.own(jobs))

    def _check_job(self, cell: _Cell, jobs: Sequence[SlurmJob]) -> None:
        cell.node = next((job.node for job in jobs), cell.node)
        if any(job.is_active for job in jobs):
            cell.over_since = None
            self._check_lock(cell)
        elif cell.over_since is None:
            cell.over_since = time.monotonic()
        elif time.monotonic() - cell.over_since >= self.settle:
            state = next((job.state for job in jobs), "no longer known to the controller")
            self._lose(cell, f"its job ended without a result: {state}", cell.node)

    def _check_lock(self, cell: _Cell) -> None:
        """Check that this machine sees the lock of a node, on which all that jobs share relies.

        It doesn't if the lock was free while its job went on to beat.
        """
        if cell.attempt is None or not cell.attempt.lock_is_free():
            return
        beat = cell.attempt.last_beat()
        if 0 < cell.unlocked_at < beat:
            raise PreflightError(
                f"file locks in {self.folder} don't work between {cell.node} and this machine",
                why="two jobs could make the same toolchain at once, and damage it",
                fix="use a file system with shared locks for the checkout and CUWHEEL_CACHE: "
                "NFS mounted without `nolock` and `local_lock`, Lustre with `flock`",
            )
        cell.unlocked_at = beat

    def _lose(self, cell: _Cell, why: str, node: str) -> None:
        if cell.attempt is None:
            return
        output = self._log(cell, f"attempt {cell.attempts} was lost on {node or 'no node'}: {why}")
        if _OUT_OF_MEMORY.search(f"{why}\n{output}"):
            cell.memory *= 2
            self._note(cell, f"the next attempt gets {show_size(cell.memory)}")
        cell.attempt.give_up()
        cell.attempt, cell.node = None, node
        cell.given_up = cell.attempts > self.retries
        cell.not_before = time.monotonic() + _LEASE

    def _log(self, cell: _Cell, what: str) -> str:
        """Report an event of a task, also in its log with the last output of its job."""
        self._note(cell, what)
        submission = cell.attempt.submission if cell.attempt else None
        logs = submission.logs() if submission else []
        lines = [line for path in logs for line in read_end(path).splitlines()]
        cell.task.log.parent.mkdir(parents=True, exist_ok=True)
        with cell.task.log.open("a") as log:
            log.write("\n".join((f"cuwheel: {what}", *lines[-_TAIL:], "")))
        return "\n".join(lines)

    def _note(self, cell: _Cell, what: str) -> None:
        self.note(f"{cell.task.name}: {what}")

    def _cancel(self, cells: list[_Cell]) -> None:
        """End the jobs of these tasks; without the controller they end themselves."""
        attempts = [cell.attempt for cell in cells if cell.attempt]
        for attempt in attempts:
            attempt.give_up()
        jobs = own_jobs() or []
        if ended := cancel(job for attempt in attempts for job in attempt.own(jobs)):
            self.note(f"cancelled {plural(len(ended), 'job')} of Slurm: {' '.join(ended)}")
