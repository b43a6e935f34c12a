"""Tasks as Slurm jobs: each on one node, again where the node was lost, never twice at once.

submitit writes the job's script, carries the task there and the outcome back. What it leaves open
is settled here (docs/adr/0024): which jobs are lost, which are ours after a restart, and that a job
whose node only seems to be dead ends before the next one begins.
"""

from __future__ import annotations

import re
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuwheel.errors import SlurmError
from cuwheel.matrix.executor import Result
from cuwheel.matrix.slurm_job import attempts_at, new_attempt
from cuwheel.matrix.slurm_queue import cancel, check_slurm, own_jobs
from cuwheel.matrix.slurm_submission import RefusedError, outcome_of, submit
from cuwheel.system.files import file_lock, remove_tree
from cuwheel.system.quantities import plural, show_size
from cuwheel.system.whole_files import read_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cuwheel.matrix.executor import Task
    from cuwheel.matrix.slurm_job import Attempt
    from cuwheel.matrix.slurm_queue import Job

_TICK = 1.0  # seconds between two looks for results
_LEASE = 5.0  # seconds in which a job that isn't wanted any more ends its program
# Statuses of a program that was ended with its job, or for its memory: by the signal, or, as
# cuwheel does, with what shells make of it.
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_KILLED = {status: sent.name for sent in _ENDING for status in (-sent, 128 + sent)}
_TAIL = 20  # lines of a lost job's own output that the task's log gets
# The node's own words where it ended a job for its memory, with control groups and without.
_OUT_OF_MEMORY = re.compile(r"OUT_OF_MEMORY|oom.kill|exceeded .*memory limit", re.IGNORECASE)


@dataclass(kw_only=True)
class _Cell:
    """A task and how far it is."""

    task: Task
    memory: int  # bytes that its next job gets
    attempt: Attempt | None = None  # the one that is submitted
    attempts: int = 0
    given_up: bool = False
    not_before: float = 0.0  # of time.monotonic(): when it may be submitted
    unlocked_at: int = 0  # beat of its job when its lock was to be had from here
    over_since: float | None = None  # when the controller was first heard to say that the job is
    node: str = ""
    waits_for: str = ""  # what the controller said last that its job waits for


@dataclass(frozen=True, kw_only=True)
class SlurmExecutor:
    """Runs tasks as jobs of a Slurm cluster.

    Attributes:
        folder: on a disk that all nodes share, at the same path; for what belongs to the jobs.
        partition: where jobs run; empty for the cluster's default.
        time_limit: minutes that a job may take.
        retries: how often a task whose job was lost is submitted again.
        at_once: jobs that wait or run at one time.
        interval: seconds between two questions to Slurm's controller.
        settle: seconds that a result may take to be seen here after its job has ended.
        tell: told what becomes of jobs, a line each.
    """

    folder: Path
    partition: str = ""
    time_limit: int
    retries: int = 2
    at_once: int = 100
    interval: float = 10.0
    settle: float = 15.0
    tell: Callable[[str], None] = field(default=lambda _: None)

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        """Run them all and give each result as it ends.

        A job is lost when it is over and left no result: its node failed, Slurm cancelled or
        preempted it, its time was up; or when its program was ended by a signal from outside. It is
        submitted again, with twice the memory where it took too much. A program that ends by
        itself, with whatever status, is not.

        Jobs that a killed caller left with this `folder` are taken up, with their results, where
        the task is the same. Whatever else ends the loop (Ctrl-C too) cancels the jobs. A result
        is forgotten when the next one is asked for.

        Raises:
            SlurmError: there is no Slurm here, it doesn't answer, or doesn't have this partition.
        """
        check_slurm(self.partition)
        self.folder.mkdir(parents=True, exist_ok=True)
        with file_lock(self.folder / "lock", on_wait=self._note_wait):
            cells = self._take_up(tasks)
            try:
                yield from self._results(cells)
            except BaseException:
                self._cancel(cells)
                raise

    def _note_wait(self) -> None:
        self.tell(f"another run uses {self.folder} for its jobs; waiting for it")

    def _take_up(self, tasks: Sequence[Task]) -> list[_Cell]:
        """Find what a killed run has left: jobs that still count, and some that don't."""
        jobs = own_jobs()
        if jobs is None:
            raise SlurmError(
                "Slurm's controller doesn't answer",
                why="nothing is submitted before it lists the running jobs",
                fix="check that `squeue` works here, then run the same command again",
            )
        return [self._take_up_one(task, jobs) for task in tasks]

    def _take_up_one(self, task: Task, jobs: Sequence[Job]) -> _Cell:
        attempts = attempts_at(self.folder, task.name)
        if not attempts:
            return _Cell(task=task, memory=task.memory)
        if attempts[-1].is_for(task):
            ids = " ".join(job.id for job in attempts[-1].own(jobs))
            self.tell(
                f"{task.name}: continued from the previous run: job {ids or 'that has ended'}"
            )
            return _Cell(
                task=task, memory=task.memory, attempt=attempts[-1], attempts=attempts[-1].number
            )
        cancel(job for attempt in attempts for job in attempt.own(jobs))
        remove_tree(self.folder / task.name)
        return _Cell(task=task, memory=task.memory, not_before=time.monotonic() + _LEASE)

    def _results(self, cells: list[_Cell]) -> Iterator[Result]:
        asked = float("-inf")
        while cells:
            for cell in list(cells):
                if result := self._result(cell):
                    yield result
                    remove_tree(self.folder / cell.task.name)
                    cells.remove(cell)
            self._submit_some(cells)
            if time.monotonic() - asked >= self.interval:
                self._check_jobs(cells)
                asked = time.monotonic()
            if cells:
                time.sleep(_TICK)

    def _result(self, cell: _Cell) -> Result | None:
        """Its result, once there is one, or there will be none."""
        outcome = outcome_of(cell.attempt) if cell.attempt else None
        if cell.attempt and outcome and outcome.status in _KILLED:
            self._lose(cell, f"its program was ended by {_KILLED[outcome.status]}", outcome.where)
        elif outcome:
            return Result(
                name=cell.task.name,
                status=outcome.status,
                output=outcome.output,
                where=outcome.where,
                attempts=cell.attempts,
            )
        if not cell.given_up:
            return None
        return Result(
            name=cell.task.name, status=None, output="", where=cell.node, attempts=cell.attempts
        )

    def _submit_some(self, cells: list[_Cell]) -> None:
        free = self.at_once - sum(cell.attempt is not None for cell in cells)
        ready = (
            cell
            for cell in cells
            if cell.attempt is None and not cell.given_up and cell.not_before <= time.monotonic()
        )
        for cell, _ in zip(ready, range(free), strict=False):
            self._submit(cell)

    def _submit(self, cell: _Cell) -> None:
        attempt = new_attempt(self.folder, cell.task, cell.attempts + 1)
        try:
            number = submit(
                cell.task,
                attempt,
                memory=cell.memory,
                partition=self.partition,
                time_limit=self.time_limit,
            )
        except RefusedError as error:
            remove_tree(attempt.folder)
            cell.not_before = time.monotonic() + self.interval
            cell.given_up = own_jobs() is not None
            if cell.given_up:
                self._note(cell, f"sbatch fails: {error}")
            return  # otherwise the controller doesn't answer, and may be asked again
        cell.attempt, cell.attempts, cell.over_since = attempt, attempt.number, None
        cell.unlocked_at = 0
        self._tell(cell, f"job {number} submitted")

    def _check_jobs(self, cells: list[_Cell]) -> None:
        """Find the jobs that are lost."""
        jobs = own_jobs()
        if jobs is None:
            return  # the controller may be restarted; jobs go on without it
        for cell in cells:
            if cell.attempt:
                self._check_job(cell, cell.attempt.own(jobs))

    def _check_job(self, cell: _Cell, own: Sequence[Job]) -> None:
        cell.node = next((job.node for job in own), cell.node)
        waits_for = next((job.waits_for for job in own if job.waits_for), "")
        if waits_for not in {"", cell.waits_for}:
            self._tell(
                cell, f"pending, reason given by Slurm: {waits_for} (squeue(1), JOB REASON CODES)"
            )
        cell.waits_for = waits_for
        if any(job.is_active for job in own):
            cell.over_since = None
            self._check_lock(cell)
        elif cell.over_since is None:
            cell.over_since = time.monotonic()
        elif time.monotonic() - cell.over_since >= self.settle:
            state = next((job.state for job in own), "no longer known to the controller")
            self._lose(cell, f"its job ended without a result: {state}", cell.node)

    def _check_lock(self, cell: _Cell) -> None:
        """See that a lock that a node holds is one here too: all that jobs share relies on that.

        A lock that was free while its job went on to beat reaches no other machine.
        """
        if cell.attempt is None or not cell.attempt.lock_is_free():
            return
        beat = cell.attempt.last_beat()
        if 0 < cell.unlocked_at < beat:
            raise SlurmError(
                f"file locks in {self.folder} don't work between {cell.node} and this machine",
                why="two jobs could make the same toolchain at once, and damage it",
                fix="use a file system with shared locks for the checkout and CUWHEEL_CACHE: "
                "NFS mounted without `nolock` and `local_lock`, Lustre with `flock`",
            )
        cell.unlocked_at = beat

    def _lose(self, cell: _Cell, why: str, node: str) -> None:
        if cell.attempt is None:
            return
        said = self._note(cell, f"attempt {cell.attempts} was lost on {node or 'no node'}: {why}")
        if _OUT_OF_MEMORY.search(f"{why}\n{said}"):
            cell.memory *= 2
            self._tell(cell, f"the next attempt gets {show_size(cell.memory)}")
        cell.attempt.give_up()
        cell.attempt, cell.node = None, node
        cell.given_up = cell.attempts > self.retries
        cell.not_before = time.monotonic() + _LEASE

    def _note(self, cell: _Cell, what: str) -> str:
        """Say what happened to a task, in its log too, there with the last that its job said."""
        self._tell(cell, what)
        own = sorted(cell.attempt.folder.glob("*_log.err")) if cell.attempt else []
        lines = [line for path in own for line in read_end(path).splitlines()]
        cell.task.log.parent.mkdir(parents=True, exist_ok=True)
        with cell.task.log.open("a") as log:
            log.write("\n".join((f"cuwheel: {what}", *lines[-_TAIL:], "")))
        return "\n".join(lines)

    def _tell(self, cell: _Cell, what: str) -> None:
        self.tell(f"{cell.task.name}: {what}")

    def _cancel(self, cells: list[_Cell]) -> None:
        """End the jobs of these tasks; where the controller doesn't answer, they see it."""
        attempts = [cell.attempt for cell in cells if cell.attempt]
        for attempt in attempts:
            attempt.give_up()
        jobs = own_jobs() or []
        if ended := cancel(job for attempt in attempts for job in attempt.own(jobs)):
            self.tell(f"cancelled {plural(len(ended), 'job')} of Slurm: {' '.join(ended)}")
