"""What Slurm's controller says of jobs: asked with `squeue`, ended with `scancel`.

`squeue` needs no accounting database, which small clusters don't have; submitit's own way to a
job's state, `sacct`, does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import SlurmError
from cuwheel.system.process import run, which

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PROGRAMS = ("sbatch", "squeue", "scancel", "sinfo", "srun")  # submitit looks for `srun`
_TIME_LIMIT = 60.0  # seconds for an answer of the controller
_FORMAT = "%i|%T|%N|%r|%k"  # id, state, nodes, reason, comment: squeue(1)
_USUAL = frozenset({"", "None", "Priority", "Resources"})  # reasons to wait that pass by themselves
# States of a job that may still run its program, or will: "JOB STATE CODES" in squeue(1).
# COMPLETING isn't one: its program has ended, or is being killed.
_ACTIVE = frozenset(
    {
        "CONFIGURING",
        "PENDING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESIZING",
        "RESV_DEL_HOLD",
        "RUNNING",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
    }
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job that the controller knows.

    Attributes:
        id: its number.
        state: `RUNNING`.
        node: where it runs or ran.
        reason: why it is in that state, `Resources`.
        comment: what it was submitted with.
    """

    id: str
    state: str
    node: str
    reason: str
    comment: str

    @property
    def waits_for(self) -> str:
        """Why it may wait for ever, `PartitionTimeLimit`; empty where it waits for its turn."""
        return "" if self.state != "PENDING" or self.reason in _USUAL else self.reason

    @property
    def is_active(self) -> bool:
        """Whether it runs, waits to run, or may be started again."""
        return self.state in _ACTIVE


def check_slurm(partition: str) -> None:
    """See that jobs can be given to a cluster.

    Args:
        partition: that they are for; empty for the cluster's default.

    Raises:
        SlurmError: a program is missing, the controller doesn't answer, or there is no such
            partition.
    """
    missing = [name for name in _PROGRAMS if not which(name, os.environ.get("PATH", os.defpath))]
    if missing:
        raise SlurmError(
            f"no Slurm on this machine: {', '.join(missing)} not found",
            why="jobs are submitted with Slurm's own programs, which aren't on PATH",
            fix="run this where jobs are submitted (a login node; some clusters need "
            "`module load slurm`), or build on this machine: `--executor local`",
        )
    status, output = _ask(["sinfo", "--noheader", "--format=%R"])
    if status:
        raise SlurmError(
            "Slurm's controller doesn't answer",
            why=output.strip() or f"`sinfo` was stopped after {_TIME_LIMIT:.0f} seconds",
            fix="check that `sinfo` works here; jobs that were already submitted continue",
        )
    known = sorted(set(output.split()))
    if partition and partition not in known:
        raise SlurmError(
            f"Slurm has no partition {partition}",
            why=f"`sinfo` lists {', '.join(known)}",
            fix="use one of these, or none for the cluster's default",
        )


def own_jobs() -> list[Job] | None:
    """This user's jobs, also those that just ended; None where the controller doesn't answer."""
    command = ["squeue", "--noheader", "--states=all", f"--user={os.getuid()}"]
    status, output = _ask([*command, f"--format={_FORMAT}"])
    if status:
        return None
    lines = (line.split("|", _FORMAT.count("|")) for line in output.splitlines())
    return [
        Job(id=words[0], state=words[1], node=words[2], reason=words[3], comment=words[4])
        for words in lines
        if len(words) == _FORMAT.count("|") + 1
    ]


def cancel(jobs: Iterable[Job]) -> list[str]:
    """End those that wait or run; gives their ids."""
    numbers = [job.id for job in jobs if job.is_active]
    if numbers:
        _ask(["scancel", *numbers])
    return numbers


def _ask(command: Sequence[str]) -> tuple[int, str]:
    done = run(command, env=os.environ, check=False, timeout=_TIME_LIMIT)
    return done.status, done.output
