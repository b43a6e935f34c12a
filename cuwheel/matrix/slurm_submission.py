"""submitit's part: an attempt given to Slurm as a job, and what its job brought back."""

from __future__ import annotations

import contextlib
import io
import os
from typing import TYPE_CHECKING

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError

from cuwheel.matrix.slurm_job import run_attempt
from cuwheel.system.quantities import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.matrix.executor import Task
    from cuwheel.matrix.slurm_job import Attempt, Outcome

_MARGIN = 256 * MIB  # memory for what carries the task, and for what a measurement misses
# What sbatch takes from its environment before the job's script. These would break what is said
# here of jobs; others, such as SBATCH_ACCOUNT, are the user's.
_NOT_FROM_USER = ("ARRAY_INX", "COMMENT", "ERROR", "EXPORT", "OUTPUT", "REQUEUE", "WAIT")


class RefusedError(Exception):
    """`sbatch` failed, in its own words."""


def submit(task: Task, attempt: Attempt, *, memory: int, partition: str, time_limit: int) -> str:
    """Give one job to Slurm; its number.

    Args:
        task: what it runs.
        attempt: where its files go.
        memory: bytes for the task.
        partition: where it runs; empty for the cluster's default.
        time_limit: minutes.

    Raises:
        RefusedError: Slurm doesn't take it.
    """
    executor = submitit.SlurmExecutor(attempt.folder)
    executor.update_parameters(
        job_name=task.name,
        comment=str(attempt.folder),
        partition=partition or None,
        time=time_limit,
        cpus_per_task=task.cores,
        mem=f"{-(-(memory + _MARGIN) // MIB)}M",
        wckey=None,  # submitit's own is refused where such keys are checked
        use_srun=False,  # since Slurm 22.05 `srun` doesn't hand the job's cores on
        # Slurm would start a lost job again, and so do we.
        additional_parameters={"no-requeue": True, "export": "ALL"},
    )
    try:
        # submitit prints what sbatch said, and has it in its error too.
        with _without_user_settings(), contextlib.redirect_stderr(io.StringIO()):
            return executor.submit(run_attempt, task, attempt).job_id
    except (FailedJobError, FailedSubmissionError) as error:
        raise RefusedError(str(error).strip()) from error


def outcome_of(attempt: Attempt) -> Outcome | None:
    """What its program came to; listing the folder also shows what another machine just wrote."""
    for path in attempt.folder.glob("*_result.pkl"):
        number = path.name.partition("_")[0]
        job: submitit.SlurmJob[Outcome] = submitit.SlurmJob(attempt.folder, number)
        if job.exception() is None:
            return job.result()
    return None


@contextlib.contextmanager
def _without_user_settings() -> Iterator[None]:
    names = [f"SBATCH_{name}" for name in _NOT_FROM_USER]
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
