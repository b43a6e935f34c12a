"""One attempt at a task as a Slurm job: its submission, the folder shared with the node, its run.

<task>/<number>-<8 digits>/     an attempt
    wanted                      removed by the caller to end the job
    submission.json             the submission that it is in, and its place there
    started                     made by the job, which then is the only one that may run
    result.json                 written last
.submissions/<8 digits>/        submitit's files of one or several attempts, which Slurm runs as a
                                job array; this path is the jobs' comment

Jobs are listed by `squeue`, which needs no accounting database: small clusters have none, and
`sacct`, from which submitit reads a job's state, does.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError

from cuwheel.base.errors import CommandFailedError, PreflightError
from cuwheel.base.system.files import file_lock, write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import run, which
from cuwheel.base.system.quantities import MIB
from cuwheel.base.system.regular_files import open_file, read_json, read_text
from cuwheel.lab.matrix.building import Task, TaskResult

_MISSING = frozenset({errno.ENOENT, errno.ESTALE})


_MARGIN = 256 * MIB  # memory for submitit, and for the error of measurements
# sbatch prefers its environment to the job's script. These variables would override the parameters
# below; others, such as SBATCH_ACCOUNT, are the user's.
_NOT_FROM_USER = ("ARRAY_INX", "COMMENT", "ERROR", "EXPORT", "OUTPUT", "REQUEUE", "WAIT")
_PROGRAMS = ("sbatch", "squeue", "scancel", "sinfo", "srun")  # submitit looks for `srun`
_TIME_LIMIT = 60.0  # seconds for a response of the controller
_FORMAT = "%i|%T|%N|%k"  # id, state, nodes, comment: squeue(1)
# States of a job that may still run its program, or will: "JOB STATE CODES" in squeue(1).
# COMPLETING isn't one: its program has ended, or is being killed.
_ACTIVE = frozenset(
    {
        *("CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING"),
        *("RESV_DEL_HOLD", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED"),
        "SUSPENDED",
    }
)


class RefusedError(Exception):
    """An error of `sbatch`, with its message."""


@dataclass(frozen=True)
class Submission:
    """The place of an attempt in what was submitted at once.

    Attributes:
        folder: submitit's.
        index: in the job array.
        count: of attempts; 1: it is no array.
    """

    folder: Path
    index: int
    count: int

    def has(self, job: SlurmJob) -> bool:
        """Return True if it is the job of this attempt: by number, or by comment without one."""
        number, _, index = job.id.partition("_")
        is_of_folder = job.comment == str(self.folder)
        is_known = is_of_folder or (self.folder / f"{number}_submission.sh").exists()
        return is_known and (self.count == 1 or index == str(self.index))

    def logs(self) -> list[Path]:
        """Return the files with the job's own errors."""
        index = "" if self.count == 1 else f"_{self.index}"
        return sorted(self.folder.glob(f"[0-9]*{index}_0_log.err"))


class NotWantedError(Exception):
    """An attempt that the caller has given up, or that another job runs."""


@dataclass(frozen=True)
class Attempt:
    """The folder of one attempt, at `<folder of all>/<task>/<number>-<8 digits>`."""

    folder: Path

    @property
    def number(self) -> int:
        """The number of the attempt, from 1."""
        return int(self.folder.name.partition("-")[0])

    @property
    def wanted(self) -> Path:
        """The file that exists until the attempt is given up; it holds the task's fingerprint."""
        return self.folder / "wanted"

    @property
    def started(self) -> Path:
        """The file that the job makes and locks."""
        return self.folder / "started"

    @property
    def result(self) -> Path:
        """The file with the result."""
        return self.folder / "result.json"

    @property
    def submission(self) -> Submission | None:
        """What it was submitted in; None: it wasn't."""
        facts = read_json(self.folder / "submission.json")
        return Submission(Path(facts["folder"]), facts["index"], facts["count"]) if facts else None

    def own(self, jobs: Iterable[SlurmJob]) -> list[SlurmJob]:
        """Return its jobs."""
        submission = self.submission
        return [job for job in jobs if submission and submission.has(job)]

    def is_for(self, task: Task) -> bool:
        """Return True if it is still wanted, and for this task."""
        return self.wanted.exists() and read_text(self.wanted) == fingerprint(task)

    def lock_is_free(self) -> bool:
        """Return True if the lock of a started job is free on this machine: not while it runs."""
        if not self.started.exists() or not self.started.stat().st_size:
            return False  # it hasn't taken it yet
        try:
            with file_lock(self.started, gives_up=lambda: True):
                return True
        except TimeoutError:
            return False

    def last_beat(self) -> int:
        """Return the time of its job's last sign of life: ns, by the file server's clock."""
        try:
            with open_file(self.wanted) as stream:  # NFS refreshes attributes at open
                return os.fstat(stream.fileno()).st_mtime_ns
        except FileNotFoundError:
            return 0

    def give_up(self) -> None:
        """Make its job end itself, if it still runs.

        The file is removed and not renamed: a node with its NFS handle gets ESTALE at its next
        call, even if its name cache is old.
        """
        self.wanted.unlink(missing_ok=True)


def fingerprint(task: Task) -> str:
    """Return a digest of a task without its cores and memory."""
    facts = (task.name, task.command, task.environment, str(task.folder), str(task.log))
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def new_attempt(folder: Path, task: Task, number: int) -> Attempt:
    """Make the folder of an attempt."""
    attempt = Attempt(folder / task.name / f"{number}-{secrets.token_hex(4)}")
    attempt.folder.mkdir(parents=True)
    write_atomically(attempt.wanted, fingerprint(task))
    return attempt


def attempts_at(folder: Path, name: str) -> list[Attempt]:
    """Return the existing attempts at a task, the latest last."""
    paths = (folder / name).glob("[0-9]*-*")
    return sorted((Attempt(path) for path in paths), key=lambda attempt: attempt.number)


def submit(
    attempts: Sequence[tuple[Task, Attempt]],
    folder: Path,
    *,
    memory: int,
    partition: str,
    time_limit: int,
) -> list[str]:
    """Submit attempts at tasks with equal needs, several as one job array; return their numbers.

    Args:
        folder: for submitit's files.
        memory: bytes for each task.
        partition: empty: the cluster's default.
        time_limit: minutes.

    Raises:
        RefusedError: Slurm refuses them.
    """
    tasks, places = zip(*attempts, strict=True)
    folder.mkdir(parents=True)
    for index, attempt in enumerate(places):
        facts = {"folder": str(folder), "index": index, "count": len(attempts)}
        write_atomically(attempt.folder / "submission.json", json.dumps(facts))
    names = [task.name for task in tasks]
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(
        job_name=_job_name(names),
        comment=str(folder),
        partition=partition or None,
        time=time_limit,
        cpus_per_task=tasks[0].cores,
        mem=f"{-(-(memory + _MARGIN) // MIB)}M",
        array_parallelism=len(attempts),
        wckey=None,  # submitit's own is refused where such keys are checked
        use_srun=False,  # since Slurm 22.05 `srun` doesn't hand the job's cores on
        # The executor starts a lost job again, so Slurm must not.
        additional_parameters={"no-requeue": True, "export": "ALL"},
    )
    try:
        # submitit prints sbatch's message, and its error holds it too.
        with _without_user_settings(), contextlib.redirect_stderr(io.StringIO()):
            return [job.job_id for job in executor.map_array(run_attempt, tasks, places)]
    except (FailedJobError, FailedSubmissionError) as error:
        raise RefusedError(str(error).strip()) from error


def _job_name(names: Sequence[str]) -> str:
    """Return what all names begin with: `cell.shard` of `cell.shard-1-of-3` and the others."""
    first, last = min(names), max(names)
    pairs = zip(first, last, strict=False)
    same = "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return same.rstrip(".-") or first


def result_of(attempt: Attempt) -> TaskResult | None:
    """Return the result if there is one; listing the folder refreshes a network disk's cache."""
    if attempt.result not in attempt.folder.iterdir():
        return None
    facts = read_json(attempt.result)
    return TaskResult(**facts) if facts else None


@contextlib.contextmanager
def _without_user_settings() -> Iterator[None]:
    names = [f"SBATCH_{name}" for name in _NOT_FROM_USER]
    removed = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(removed)


def run_attempt(task: Task, attempt: Attempt) -> TaskResult:
    """Run the task's program on the node, until it ends or isn't wanted.

    Its environment is the job's and the task's, with a temporary folder of its own.

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
        result = _run_program(task, attempt)
        if not _is_wanted(attempt):
            raise NotWantedError
        write_atomically(attempt.result, json.dumps(asdict(result)))
    return result


def _run_program(task: Task, attempt: Attempt) -> TaskResult:
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder() as temporary:
        try:
            done = run(
                task.command,
                env={**os.environ, **dict(task.environment), "TMPDIR": str(temporary)},
                cwd=task.folder,
                error_log=task.log,
                gives_up=lambda _: not _is_wanted(attempt),
                check=False,
            )
            status = done.status
        except CommandFailedError as error:  # it can't be started
            with task.log.open("a") as log:
                log.write(f"{error}\n")
            status = error.status
    return TaskResult(name=task.name, status=status, where=_host(), attempts=attempt.number)


def _is_wanted(attempt: Attempt) -> bool:
    """Set the file's time, which the file server does itself and no cache can answer."""
    try:
        os.utime(attempt.wanted)
    except OSError as error:
        return error.errno not in _MISSING
    return True


def _host() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """A job that the controller lists, with its state, such as `RUNNING`."""

    id: str
    state: str
    node: str
    comment: str

    @property
    def is_active(self) -> bool:
        """True if it runs, waits to run, or may be started again."""
        return self.state in _ACTIVE


def check_slurm(partition: str) -> None:
    """Check that jobs can be submitted to a partition; empty: the cluster's default.

    Raises:
        PreflightError: a program is missing, the controller doesn't answer, or there is no such
            partition.
    """
    missing = [name for name in _PROGRAMS if not which(name, os.environ.get("PATH", os.defpath))]
    if missing:
        raise PreflightError(
            f"no Slurm on this machine: {', '.join(missing)} not found",
            why="jobs are submitted with Slurm's own programs, which aren't on PATH",
            fix="run this where jobs are submitted (a login node; some clusters need "
            "`module load slurm`), or build on this machine: `--executor local`",
        )
    status, output = _run(["sinfo", "--noheader", "--format=%R"])
    if status:
        raise PreflightError(
            "Slurm's controller doesn't answer",
            why=output.strip() or f"`sinfo` was stopped after {_TIME_LIMIT:.0f} seconds",
            fix="check that `sinfo` works here; jobs that were already submitted continue",
        )
    known = sorted(set(output.split()))
    if partition and partition not in known:
        raise PreflightError(
            f"Slurm has no partition {partition}",
            why=f"`sinfo` lists {', '.join(known)}",
            fix="use one of these, or none for the cluster's default",
        )


def own_jobs() -> list[SlurmJob] | None:
    """Return the user's jobs, also those that just ended; None where the controller fails."""
    command = ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}"]
    status, output = _run([*command, f"--format={_FORMAT}"])
    if status:
        return None
    names = [field.name for field in fields(SlurmJob)]
    lines = (line.split("|", len(names) - 1) for line in output.splitlines())
    return [
        SlurmJob(**dict(zip(names, values, strict=True)))
        for values in lines
        if len(values) == len(names)
    ]


def cancel(jobs: Iterable[SlurmJob]) -> list[str]:
    """End the active ones, and return their ids."""
    numbers = [job.id for job in jobs if job.is_active]
    if numbers:
        _run(["scancel", *numbers])
    return numbers


def _run(command: Sequence[str]) -> tuple[int, str]:
    done = run(command, env=os.environ, check=False, timeout=_TIME_LIMIT)
    return done.status, done.output
