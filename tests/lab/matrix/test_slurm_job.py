from __future__ import annotations

import dataclasses
import socket
import sys
from pathlib import Path

import pytest

from cuwheel.base.errors import PreflightError
from cuwheel.lab.matrix.building import Task, TaskResult
from cuwheel.lab.matrix.slurm_job import (
    Attempt,
    NotWantedError,
    SlurmJob,
    Submission,
    attempts_at,
    check_slurm,
    fingerprint,
    new_attempt,
    result_of,
    run_attempt,
)

_GIVE_UP = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).unlink()
time.sleep(60)
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(
        name="cell",
        command=(sys.executable, "-c", "print('{}')"),
        environment=(),
        folder=tmp_path,
        cores=1,
        memory=1 << 20,
        log=tmp_path / "log",
    )


@pytest.fixture
def attempt(tmp_path: Path, task: Task) -> Attempt:
    return new_attempt(tmp_path / "jobs", task, 1)


def test_runs_an_attempt_once(task: Task, attempt: Attempt) -> None:
    assert result_of(attempt) is None

    assert run_attempt(task, attempt).status == 0

    assert result_of(attempt) == TaskResult(name="cell", status=0, where=socket.gethostname())
    with pytest.raises(NotWantedError):
        run_attempt(task, attempt)


def test_runs_no_attempt_that_was_given_up(task: Task, attempt: Attempt) -> None:
    touch = dataclasses.replace(task, command=("touch", str(task.folder / "ran")))
    attempt.give_up()

    with pytest.raises(NotWantedError):
        run_attempt(touch, attempt)

    assert not (task.folder / "ran").exists()


def test_ends_a_program_that_is_given_up(task: Task, attempt: Attempt) -> None:
    long = dataclasses.replace(task, command=(sys.executable, "-c", _GIVE_UP, str(attempt.wanted)))

    with pytest.raises(NotWantedError):
        run_attempt(long, attempt)


def test_missing_program_has_failed(task: Task, attempt: Attempt) -> None:
    outcome = run_attempt(dataclasses.replace(task, command=("no-such-program",)), attempt)

    assert outcome.status == 127
    assert "no-such-program could not be started" in task.log.read_text()


@pytest.mark.parametrize(("count", "found"), [(1, ["17", "18"]), (12, ["17_1", "18_1"])])
def test_finds_its_jobs_by_number_or_comment(tmp_path: Path, count: int, found: list[str]) -> None:
    (tmp_path / "17_submission.sh").touch()
    comments = {"17": "(null)", "18": str(tmp_path), "19": f"{tmp_path}0"}
    jobs = [
        SlurmJob(id=f"{number}{index}", state="RUNNING", node="n1", comment=comment)
        for number, comment in comments.items()
        for index in ([""] if count == 1 else ["_1", "_11", "_0"])
    ]

    submission = Submission(tmp_path, index=1, count=count)

    assert [job.id for job in jobs if submission.has(job)] == found


def test_attempt_without_submission_has_no_job(attempt: Attempt) -> None:
    assert not attempt.own([SlurmJob(id="1", state="RUNNING", node="n1", comment="")])


def test_is_for_the_same_task(task: Task, attempt: Attempt) -> None:
    other = dataclasses.replace(task, environment=(("CUWHEEL_OFFLINE", "1"),))

    assert attempt.is_for(dataclasses.replace(task, cores=8, memory=1 << 30))
    assert not attempt.is_for(other)
    assert fingerprint(other) != fingerprint(task)


def test_sorts_attempts_by_number(tmp_path: Path, task: Task) -> None:
    for number in (10, 2, 9):
        new_attempt(tmp_path / "jobs", task, number)

    assert [attempt.number for attempt in attempts_at(tmp_path / "jobs", "cell")] == [2, 9, 10]


def test_names_the_programs_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PreflightError) as caught:
        check_slurm("")

    assert "sbatch, squeue, scancel, sinfo, srun not found" in caught.value.what
    assert "--executor local" in caught.value.fix
