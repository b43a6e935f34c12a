from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from cuwheel.base.errors import PreflightError
from cuwheel.lab.matrix.building import TaskResult
from cuwheel.lab.matrix.slurm_executor import SlurmExecutor
from tests.support.machines.slurm import (
    LONGEST_ARRAY,
    NODES,
    Event,
    Slurm,
    end_tasks,
    make_task,
    read_events,
    slurm_cluster,
    wait_for,
)
from tests.support.toolchains.foreign_locks import foreign_flock

Start = Callable[..., Future[list[TaskResult]]]
StartCaller = Callable[..., subprocess.Popen[str]]

pytestmark = pytest.mark.e2e

_SHARDS = (("first", 0), ("second", 1))  # the second one fails
_LONG = 120.0  # seconds of a task that a test ends


@pytest.fixture(scope="module")
def cluster(module_path: Path) -> Iterator[Slurm]:
    with slurm_cluster(module_path) as started:
        yield started


@pytest.fixture
def slurm(cluster: Slurm, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """The cluster, for programs that this process starts; both nodes are idle."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.folder / "slurm.conf"))
    cluster.start_what_ended()
    wait_for(cluster.is_idle)
    return cluster


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def executor(tmp_path: Path, notes: list[str]) -> SlurmExecutor:
    return SlurmExecutor(
        folder=tmp_path / "jobs", time_limit=5, interval=1.0, settle=2.0, note=notes.append
    )


@pytest.fixture
def start(slurm: Slurm, executor: SlurmExecutor) -> Iterator[Start]:
    """Run tasks by the executor, in a thread."""
    del slurm
    with ThreadPoolExecutor() as pool:
        yield lambda *tasks, of=executor: pool.submit(lambda: list(of.run(tasks)))


@pytest.fixture
def start_caller(tmp_path: Path, slurm: Slurm) -> Iterator[StartCaller]:
    """Start another process that runs tasks, `<name>=<seconds>` each."""
    with contextlib.ExitStack() as stack:

        def start(*tasks: str) -> subprocess.Popen[str]:
            command = [
                sys.executable,
                "-m",
                "tests.support.machines.slurm_caller",
                str(tmp_path),
                *tasks,
            ]
            caller = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=slurm.environment)
            )
            stack.callback(caller.kill)
            return caller

        yield start


def events_of(folder: Path, what: str) -> list[Event]:
    return [event for event in read_events(folder) if event.what == what]


def counts(folder: Path, what: str) -> dict[str, int]:
    return dict(collections.Counter(event.name for event in events_of(folder, what)))


def began(folder: Path, name: str) -> Event:
    """Wait until a task runs, and return its event."""
    wait_for(lambda: name in counts(folder, "begin"))
    return next(event for event in reversed(events_of(folder, "begin")) if event.name == name)


def end_next_attempt(folder: Path, name: str) -> None:
    """End a task's second attempt as soon as it runs."""
    wait_for(lambda: counts(folder, "begin")[name] == 2)
    end_tasks(folder, name)


def ended(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def read_until(caller: subprocess.Popen[str], end: str) -> list[str]:
    """Return the lines of a caller, up to one with this end."""
    assert caller.stdout is not None
    lines = []
    for line in caller.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1].endswith(end):
            return lines
    raise AssertionError(lines)


def carrier_of(event: Event) -> psutil.Process:
    """Return submitit's process, the parent of the task's program."""
    parent = psutil.Process(event.pid).parent()
    assert parent is not None
    return parent


def test_runs_each_task_once_on_both_nodes(
    slurm: Slurm, executor: SlurmExecutor, tmp_path: Path
) -> None:
    before = len(slurm.all_jobs())
    tasks = [make_task(tmp_path, f"cell-{number}", seconds=1.0) for number in range(12)]

    results = list(executor.run(tasks))

    assert sorted(result.name for result in results) == sorted(task.name for task in tasks)
    assert {(result.status, result.attempts) for result in results} == {(0, 1)}
    assert {result.where for result in results} == set(NODES)
    assert counts(tmp_path, "end") == {task.name: 1 for task in tasks}
    assert len(slurm.all_jobs()) - before == len(tasks)
    assert not list(executor.folder.glob(".submissions/*"))


@pytest.mark.usefixtures("slurm")
def test_submits_equal_tasks_as_one_array(
    executor: SlurmExecutor, notes: list[str], tmp_path: Path
) -> None:
    wide = dataclasses.replace(make_task(tmp_path, "wide"), memory=32 << 20)
    shards = [make_task(tmp_path, f"cell.shard-{number}") for number in (1, 2, 3)]

    list(executor.run([*shards, wide]))

    jobs = {note.split(": job ")[0]: note.split()[-2] for note in notes if " submitted" in note}
    assert len({jobs[shard.name].partition("_")[0] for shard in shards}) == 1
    assert [jobs[shard.name].partition("_")[2] for shard in shards] == ["0", "1", "2"]
    assert "_" not in jobs["wide"]


@pytest.mark.usefixtures("slurm")
def test_submits_tasks_alone_where_an_array_is_refused(
    executor: SlurmExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SBATCH_ARRAY_INX", "0-3")  # not the user's to set
    cells = [make_task(tmp_path, f"cell-{number}") for number in range(LONGEST_ARRAY + 1)]

    results = list(executor.run(cells))

    assert {(result.status, result.attempts) for result in results} == {(0, 1)}


@pytest.mark.usefixtures("slurm")
def test_sets_environment_log_and_temporary_folder(executor: SlurmExecutor, tmp_path: Path) -> None:
    list(executor.run([make_task(tmp_path, "cell")]))

    answer = json.loads((tmp_path / "cell.json").read_text())
    assert answer["own"] == "of cell"
    assert not Path(answer["temporary"]).exists()
    assert (tmp_path / "cell.log").read_text() == "cell begins\n"


@pytest.mark.usefixtures("slurm")
def test_ignores_the_users_settings_of_sbatch(
    executor: SlurmExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EXPORT", "REQUEUE", "OUTPUT"):
        monkeypatch.setenv(f"SBATCH_{name}", "none")

    [result] = executor.run([make_task(tmp_path, "cell")])

    assert result.status == 0


@pytest.mark.usefixtures("slurm")
@pytest.mark.parametrize(("status", "result"), [(61, 61), (128 + signal.SIGTERM, None)])
def test_job_is_lost_only_if_its_program_was_ended_by_a_signal(
    status: int, result: int | None, executor: SlurmExecutor, tmp_path: Path
) -> None:
    """The second is cuwheel's own exit status when Slurm ends its job."""
    once = dataclasses.replace(executor, retries=0)

    results = list(once.run([make_task(tmp_path, "cell", status=status)]))

    assert [(each.status, each.attempts) for each in results] == [(result, 1)]
    assert counts(tmp_path, "begin") == {"cell": 1}


@pytest.mark.usefixtures("slurm")
def test_task_waits_for_those_it_comes_after(start: Start, tmp_path: Path) -> None:
    shards = [make_task(tmp_path, name, seconds=2, status=status) for name, status in _SHARDS]
    cell = dataclasses.replace(
        make_task(tmp_path, "cell"), after=tuple(shard.name for shard in shards)
    )

    results = start(cell, *shards).result()

    assert [result.name for result in results][-1] == "cell"
    told = [(event.what, event.name) for event in read_events(tmp_path)]
    assert told.index(("begin", "cell")) > max(told.index(("end", name)) for name, _ in _SHARDS)


@pytest.mark.usefixtures("slurm")
def test_limits_jobs_at_once(executor: SlurmExecutor, tmp_path: Path) -> None:
    narrow = dataclasses.replace(executor, at_once=1)

    list(narrow.run([make_task(tmp_path, name, seconds=0.5) for name in ("one", "two", "three")]))

    assert [event.what for event in read_events(tmp_path)] == ["begin", "end"] * 3


@pytest.mark.usefixtures("slurm")
def test_continues_after_a_job_that_slurm_refuses(executor: SlurmExecutor, tmp_path: Path) -> None:
    huge = dataclasses.replace(make_task(tmp_path, "huge"), memory=1 << 50)

    results = list(executor.run([huge, make_task(tmp_path, "cell")]))

    assert {result.name: (result.status, result.attempts) for result in results} == {
        "huge": (None, 0),
        "cell": (0, 1),
    }
    assert "sbatch fails: sbatch: error: Memory specification" in huge.log.read_text()


@pytest.mark.usefixtures("slurm")
def test_refuses_unknown_partition(executor: SlurmExecutor, tmp_path: Path) -> None:
    typo = dataclasses.replace(executor, partition="shrot")

    with pytest.raises(PreflightError) as caught:
        list(typo.run([make_task(tmp_path, "cell")]))

    assert caught.value.why == "`sinfo` lists short"


def test_refuses_disk_without_shared_locks(
    slurm: Slurm, executor: SlurmExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in foreign_flock(tmp_path).items():
        monkeypatch.setenv(name, value)  # not in the environment of this process

    with pytest.raises(PreflightError) as caught:
        list(executor.run([make_task(tmp_path, "cell", seconds=60)]))

    assert "don't work between node" in caught.value.what
    wait_for(lambda: not slurm.jobs())


def test_submits_cancelled_job_again(slurm: Slurm, start: Start, tmp_path: Path) -> None:
    running = start(make_task(tmp_path, "cell", seconds=_LONG))
    began(tmp_path, "cell")

    slurm.ask("scancel", *slurm.jobs())
    end_next_attempt(tmp_path, "cell")

    [result] = running.result()
    assert (result.status, result.attempts) == (0, 2)
    assert "its program was ended by SIG" in (tmp_path / "cell.log").read_text()
    assert counts(tmp_path, "begin") == {"cell": 2}
    assert counts(tmp_path, "end") == {"cell": 1}
    assert not counts(tmp_path, "twice")


@pytest.mark.usefixtures("slurm")
def test_submits_killed_job_again(start: Start, tmp_path: Path) -> None:
    running = start(make_task(tmp_path, "cell", seconds=_LONG), make_task(tmp_path, "other"))
    event = began(tmp_path, "cell")
    program = psutil.Process(event.pid)

    carrier_of(event).kill()
    end_next_attempt(tmp_path, "cell")

    assert sorted((result.name, result.status, result.attempts) for result in running.result()) == [
        ("cell", 0, 2),
        ("other", 0, 1),
    ]
    assert counts(tmp_path, "end") == {"cell": 1, "other": 1}
    assert not counts(tmp_path, "twice")
    assert ended(program)
    assert "attempt 1 was lost on node" in (tmp_path / "cell.log").read_text()


@pytest.mark.usefixtures("slurm")
def test_gives_up_after_so_many_retries(
    executor: SlurmExecutor, start: Start, tmp_path: Path
) -> None:
    running = start(
        make_task(tmp_path, "cell", seconds=_LONG), of=dataclasses.replace(executor, retries=1)
    )

    psutil.Process(began(tmp_path, "cell").pid).kill()
    wait_for(lambda: counts(tmp_path, "begin") == {"cell": 2})
    psutil.Process(began(tmp_path, "cell").pid).kill()

    [result] = running.result()
    assert (result.status, result.attempts) == (None, 2)
    assert result.where in NODES


@pytest.mark.usefixtures("slurm")
def test_doubles_memory_after_out_of_memory(
    executor: SlurmExecutor, notes: list[str], tmp_path: Path
) -> None:
    """It takes 500 MiB: too much for 256 and the margin, not for 512."""
    task = dataclasses.replace(make_task(tmp_path, "cell"), memory=256 << 20)
    grow = (sys.executable, "-c", "import time; data = b'x' * (500 << 20); time.sleep(4)")
    command = ("sh", "-c", f"{shlex.join(grow)} && exec {shlex.join(task.command)}")

    results = list(executor.run([dataclasses.replace(task, command=command)]))

    assert [(result.status, result.attempts) for result in results] == [(0, 2)]
    assert "cell: the next attempt gets 512.0 MiB" in notes
    assert "exceeded memory limit" in task.log.read_text()


def test_ends_lost_nodes_task_elsewhere(slurm: Slurm, start: Start, tmp_path: Path) -> None:
    """The node's daemon is dead and its job goes on, as if it had lost its network."""
    running = start(make_task(tmp_path, "cell", seconds=_LONG))
    event = began(tmp_path, "cell")
    program = psutil.Process(event.pid)

    slurm.kill_node(event.node)
    end_next_attempt(tmp_path, "cell")

    [result] = running.result()
    assert (result.status, result.attempts) == (0, 2)
    assert {result.where, event.node} == set(NODES)
    assert counts(tmp_path, "end") == {"cell": 1}
    assert not counts(tmp_path, "twice")
    assert ended(program)


def test_outlives_a_restart_of_the_controller(slurm: Slurm, start: Start, tmp_path: Path) -> None:
    running = start(make_task(tmp_path, "cell", seconds=_LONG))
    began(tmp_path, "cell")

    slurm.daemons["slurmctld"].terminate()
    slurm.daemons["slurmctld"].wait()
    slurm.start_what_ended()
    end_tasks(tmp_path, "cell")

    [result] = running.result()
    assert (result.status, result.attempts) == (0, 1)
    assert counts(tmp_path, "begin") == {"cell": 1}


def test_continues_jobs_of_a_killed_caller(
    slurm: Slurm, start_caller: StartCaller, tmp_path: Path
) -> None:
    """Four run, of which one ends without a caller, and four wait."""
    before = len(slurm.all_jobs())
    run = dict.fromkeys(("short", "one", "two", "three"), _LONG)
    seconds = run | {f"waits-{number}": 0.0 for number in range(4)}
    cells = [f"{name}={value}" for name, value in seconds.items()]
    killed = start_caller(*cells)
    for _ in cells:
        read_until(killed, " submitted")
    wait_for(lambda: counts(tmp_path, "begin").keys() == run.keys())
    killed.kill()
    end_tasks(tmp_path, "short")
    wait_for(lambda: "short" in counts(tmp_path, "end"))

    caller = start_caller(*cells)
    end_tasks(tmp_path, *run)
    lines, _ = caller.communicate()

    assert sorted(line for line in lines.splitlines() if line.startswith("result")) == [
        f"result {name} 0" for name in sorted(seconds)
    ]
    assert counts(tmp_path, "begin") == dict.fromkeys(seconds, 1)
    assert len(slurm.all_jobs()) - before == len(cells)


def test_cancels_the_job_of_a_changed_task(
    slurm: Slurm, start_caller: StartCaller, tmp_path: Path
) -> None:
    killed = start_caller("cell=60")
    program = psutil.Process(began(tmp_path, "cell").pid)
    killed.kill()

    lines, _ = start_caller("cell=0").communicate()

    assert lines.splitlines()[-1] == "result cell 0"
    assert ended(program)
    assert counts(tmp_path, "end") == {"cell": 1}
    assert not counts(tmp_path, "twice")
    assert not slurm.jobs()


def test_cancels_jobs_at_interrupt(slurm: Slurm, start_caller: StartCaller, tmp_path: Path) -> None:
    cells = ("one=60", "two=60", "three=60", "four=60", "five=60")
    before = len(slurm.all_jobs())
    caller = start_caller(*cells)
    wait_for(lambda: len(slurm.all_jobs()) - before == len(cells))
    programs = [psutil.Process(began(tmp_path, name).pid) for name in ("one", "two")]

    caller.send_signal(signal.SIGINT)

    lines, _ = caller.communicate()
    assert "cancelled 5 jobs of Slurm: " in lines
    wait_for(lambda: all(map(ended, programs)) and not slurm.jobs())
    assert not counts(tmp_path, "end")


@pytest.mark.usefixtures("slurm")
def test_refuses_a_cluster_that_does_not_answer(
    slurm: Slurm, executor: SlurmExecutor, tmp_path: Path
) -> None:
    slurm.daemons["slurmctld"].terminate()
    slurm.daemons["slurmctld"].wait()

    with pytest.raises(PreflightError) as caught:
        list(executor.run([make_task(tmp_path, "cell")]))

    assert caught.value.what == "Slurm's controller doesn't answer"
    assert "Unable to contact slurm controller" in caught.value.why
