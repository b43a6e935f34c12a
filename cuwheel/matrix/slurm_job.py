"""One attempt at a task as a Slurm job: the folder that caller and node share, and the node's part.

<task>/<number>-<8 digits>/     an attempt; the comment of its Slurm job is this folder's path
    wanted                      there for as long as the caller wants the job to run
    started                     made by the job, which then is the only one that may run
    <job>_0_result.pkl          submitit's, with what `run_attempt` returned
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import socket
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.system.files import file_lock, write_atomically
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.matrix.executor import Task
    from cuwheel.matrix.slurm_queue import Job

_MISSING = frozenset({errno.ENOENT, errno.ESTALE})


class NotWantedError(Exception):
    """The caller has given this attempt up, or another job has it."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A program that ran to its end on a node."""

    status: int
    output: str
    where: str


@dataclass(frozen=True)
class Attempt:
    """The folder of one attempt, at `<folder of all>/<task>/<number>-<8 digits>`."""

    folder: Path

    @property
    def number(self) -> int:
        """Counts from 1."""
        return int(self.folder.name.partition("-")[0])

    @property
    def wanted(self) -> Path:
        """The file that says so; it holds the task's fingerprint."""
        return self.folder / "wanted"

    @property
    def started(self) -> Path:
        """The file that the job makes."""
        return self.folder / "started"

    def own(self, jobs: Iterable[Job]) -> list[Job]:
        """Its jobs among others: by number, or by comment where sbatch's answer never came."""
        suffix = "_submission.sh"
        numbers = {path.name.removesuffix(suffix) for path in self.folder.glob(f"[0-9]*{suffix}")}
        return [job for job in jobs if job.id in numbers or job.comment == str(self.folder)]

    def is_for(self, task: Task) -> bool:
        """Whether it is still wanted, and for this very task."""
        return self.wanted.exists() and read_text(self.wanted) == fingerprint(task)

    def lock_is_free(self) -> bool:
        """Whether the lock of a job that has started can be had from here: not while it runs."""
        if not self.started.exists() or not self.started.stat().st_size:
            return False  # it hasn't taken it yet
        try:
            with file_lock(self.started, gives_up=lambda: True):
                return True
        except TimeoutError:
            return False

    def last_beat(self) -> int:
        """When its job last showed that it runs; in ns, by the file server's clock."""
        try:
            with self.wanted.open() as stream:  # a network disk looks anew at what is opened
                return os.fstat(stream.fileno()).st_mtime_ns
        except FileNotFoundError:
            return 0

    def give_up(self) -> None:
        """Have its job end by itself, if it still runs.

        The file is removed and not renamed: a node that has its handle from NFS then hears at its
        next call that it is stale, whatever the node's cache of names still says.
        """
        self.wanted.unlink(missing_ok=True)


def fingerprint(task: Task) -> str:
    """What makes a task another one: all but the cores and memory that it gets."""
    facts = (task.name, task.command, task.environment, str(task.folder), str(task.log))
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def new_attempt(folder: Path, task: Task, number: int) -> Attempt:
    """Make the folder of an attempt that is wanted."""
    attempt = Attempt(folder / task.name / f"{number}-{secrets.token_hex(4)}")
    attempt.folder.mkdir(parents=True)
    write_atomically(attempt.wanted, fingerprint(task))
    return attempt


def attempts_at(folder: Path, name: str) -> list[Attempt]:
    """Those that are left of a task, the latest last."""
    found = (folder / name).glob("[0-9]*-*")
    return sorted((Attempt(path) for path in found), key=lambda attempt: attempt.number)


def run_attempt(task: Task, attempt: Attempt) -> Outcome:
    """On the node: run the task's program, unless and until it isn't wanted.

    It gets the job's environment, the task's, and a folder for temporary files of its own.

    Raises:
        NotWantedError: it must not run, or had to be ended.
    """
    try:
        attempt.started.touch(exist_ok=False)
    except FileExistsError as error:  # Slurm has started the job again by itself
        raise NotWantedError from error
    with file_lock(attempt.started):
        attempt.started.write_text(_host())
        if not _is_wanted(attempt):
            raise NotWantedError
        outcome = _run_program(task, attempt)
        if not _is_wanted(attempt):
            raise NotWantedError
    return outcome


def _run_program(task: Task, attempt: Attempt) -> Outcome:
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cuwheel-", ignore_cleanup_errors=True) as temporary:
        try:
            done = run(
                task.command,
                env={**os.environ, **dict(task.environment), "TMPDIR": temporary},
                cwd=task.folder,
                error_log=task.log,
                gives_up=lambda _: not _is_wanted(attempt),
                check=False,
            )
        except CommandFailedError as error:  # it can't be started
            with task.log.open("a") as log:
                log.write(f"{error}\n")
            return Outcome(status=error.status, output="", where=_host())
    return Outcome(status=done.status, output=done.output, where=_host())


def _is_wanted(attempt: Attempt) -> bool:
    """Ask the file server itself: a time is set, which no cache answers."""
    try:
        os.utime(attempt.wanted)
    except OSError as error:
        return error.errno not in _MISSING
    return True


def _host() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
