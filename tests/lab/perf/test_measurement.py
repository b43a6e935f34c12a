"""Whole runs with a real probe in a process; the driver's GPU is the host's memory."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import GpuError, ProbeError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.build.inputs.checkouts import commit_of
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.lab.perf import measurement
from cuwheel.lab.perf.measured_case import MeasuredCase
from cuwheel.lab.perf.measurement import measure
from cuwheel.lab.perf.probe_process import (
    PerfRequest,
    Player,
    SweepRequest,
    play,
    start_probe,
)
from cuwheel.lab.perf.records import PerfRun
from cuwheel.version import __version__
from tests.support.lab.perf_runs import (
    PROBE,
    RIGHT,
    install_driver,
    make_case,
    make_run,
    request_for,
    unpack,
    write_package,
)
from tests.support.requirements import require

ONE_WRONG = """\
def double(x):
    result = 2 * x
    result[777] += 0.02
    return result
"""
TIRED = """\
calls = []
def double(x):
    calls.append(1)
    return 2 * x if len(calls) < MOST else x
"""
ONE_IN_64 = """\
calls = []
def double(x):
    calls.append(1)
    return 2 * x if len(calls) % 64 else 2.5 * x
"""
CRASH = """\
import os
def double(x):
    if x.size == 9:
        END
    return 2 * x
"""
WITH_OTHER = PROBE.replace(
    'Case(name="small"',
    'Case(name="other", **{**usual, "inputs": lambda _: (np.ones(9),)}),\n'
    '        Case(name="small"',
)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(autouse=True)
def gpu(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))


def run_of(folder: Path, code: str = RIGHT, **more: Any) -> PerfRun:
    return measure(request_for(folder, code, **more), Console())


def sandbox_of(folder: Path, driver: Path) -> Confinement:
    return Confinement(
        sandbox=choose_sandbox(),
        environment=Path(sys.prefix).resolve(),
        base=Path(sys.executable).resolve(),
        folder=folder / "own",
        read=(folder / "new", driver),
        has_gpu=True,
    )


def with_old(request: PerfRequest, folder: Path, code: str = RIGHT) -> PerfRequest:
    """Return a request that compares with another wheel."""
    old = unpack(write_package(folder / "old-wheel", code), folder / "old")
    place = dataclasses.replace(request.new, folder=old, name="the old")
    return dataclasses.replace(request, old=place, against="old")


def test_measures_a_right_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEASURED_LIKE", "this")
    run = run_of(tmp_path)

    assert [(case.name, case.skipped) for case in run.cases] == [
        ("large", ""),
        ("small", ""),
        ("two", "it needs 2 GPUs"),
    ]
    large = run.cases[0]
    assert large.timing
    assert large.rival_timing
    assert large.bytes_rate == pytest.approx(16000 / large.timing.median)
    assert run.faults == ()
    assert run.package == "measured 1.0+cu130"
    assert run.gpu.name == "Test GPU"
    assert (run.cuwheel, run.commit) == (__version__, commit_of(ROOT))
    assert large.block_limit == pytest.approx(4e-12)
    assert large.block_error == 0
    assert run.ceilings["copy"] > 0
    assert run.variables["MEASURED_LIKE"] == "this"
    assert run.cases[0].unread  # CUPTI has no GPU to read, or isn't there
    assert "libcuda.so.1" in {soname for soname, _, _ in run.libraries}


def test_looks_for_other_processes_before_and_after_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that comes during the calls takes memory, as a leak does."""
    answers = [False, True]
    others = lambda *_: answers.pop(0) if answers else False  # noqa: E731
    monkeypatch.setattr("cuwheel.lab.perf.setup.Setup.has_others", others)
    busy: list[bool] = []
    judge = MeasuredCase.judge_results

    def noted(case: MeasuredCase, *given: Any) -> None:
        busy.append(case.is_busy)
        judge(case, *given)

    monkeypatch.setattr(MeasuredCase, "judge_results", noted)

    run = run_of(tmp_path)

    assert (busy, run.is_busy) == ([True, False], True)


@pytest.mark.parametrize(
    ("by_host", "processors", "typical"), [(False, 1.0, 3.0), (True, 1.0, 1.0), (True, 8.0, 1.0)]
)
def test_least_time_counts_by_the_hosts_clock(
    *, by_host: bool, processors: float, typical: float
) -> None:
    asked = []

    class Worker:
        def call(self, *_: object, **arguments: object) -> list[float]:
            asked.append(arguments.get("processor"))
            return [9.0, 1.0, 3.0]

    worker: Any = Worker()
    player = Player(worker=worker, subject="package", seconds=1.0, processors=processors)

    play({"name": "a"}, [player], is_quick=True, by_host=by_host)

    assert set(player.rounds) == {typical}
    is_on_one = by_host and processors < 2  # several threads would wait for each other on one
    assert set(asked) <= (os.sched_getaffinity(0) if is_on_one else {None})


@pytest.mark.e2e
def test_runs_all_cases_without_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    run = run_of(tmp_path, is_quick=False)

    assert [case.name for case in run.cases if case.timing] == ["large", "slow to measure", "two"]


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("def double(x):\n    return 2.001 * x\n", "the relative error is"),
        ("def double(x):\n    return x * float('nan')\n", "the result contains NaN or infinity"),
        (TIRED.replace("MOST", "400"), "after many calls the relative error is"),
        (TIRED.replace("MOST", "9"), "297 of 300 calls with the same inputs returned other bits"),
        (ONE_IN_64, "4 of 300 calls with the same inputs returned other bits"),
        ("def double(x):\n    return x[:5]\n", "its shape is (5,), and (1000,) was expected"),
        ("def double(x):\n    return x, x\n", "it returns 2 arrays, and 1 were expected"),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, code: str, fault: str) -> None:
    run = run_of(tmp_path, code)

    assert run.faults[0].startswith(f"large: {fault}")


@pytest.mark.e2e
def test_names_the_block_where_one_of_a_million_elements_is_wrong(tmp_path: Path) -> None:
    probe = PROBE.replace("random(1000)", "random(1 << 20)").replace("1e-12", "1e-4")

    run = run_of(tmp_path, ONE_WRONG, probe=probe)

    assert run.faults[0].startswith("large: the relative error of elements 768 to 1023 is")
    assert run.cases[0].error
    assert run.cases[0].error < run.cases[0].limit


@pytest.mark.parametrize("is_uniform", [True, False])
def test_roundings_of_few_numbers_are_no_bias(tmp_path: Path, *, is_uniform: bool) -> None:
    few = "np.full(8192, 0.5 + 1e-4 * seed)"  # twice that is between two numbers of `f2`
    probe = PROBE.replace("np.random.default_rng(seed).random(1000)", few)
    probe = probe.replace("limit=1e-12", f"limit=5e-4, units=1.0, is_uniform={is_uniform}")

    run = run_of(tmp_path, "def double(x):\n    return (2 * x).astype('f2')\n", probe=probe)

    what = "4096 elements are too large or too small by"
    assert [what in fault for fault in run.faults] == ([] if is_uniform else [True, True])


def test_continues_after_a_case_that_raises(tmp_path: Path) -> None:
    code = "def double(x):\n    if x.size == 1000:\n        raise ValueError('not today')\n"

    run = run_of(tmp_path, f"{code}    return 2 * x\n", probe=WITH_OTHER)

    assert run.failures == ("large: ValueError: not today", "small: ValueError: not today")
    assert [case.name for case in run.cases if case.timing] == ["other"]


@pytest.mark.parametrize(
    ("end", "what"),
    [
        ("os._exit(7)", "its process ended with status 7"),
        ("os.abort()", "its process ended with signal SIGABRT"),
        (
            "raise RuntimeError('CUDA error: an illegal memory access was encountered')",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
        ),
    ],
)
def test_crash_keeps_the_other_cases(tmp_path: Path, end: str, what: str) -> None:
    run = run_of(tmp_path, CRASH.replace("END", end), probe=WITH_OTHER)

    failed = f"{what}; without compute-sanitizer its kernel isn't known"
    assert run.failures == (f"other: {failed}",)
    assert [(case.name, case.error) for case in run.cases if not case.skipped] == [
        ("large", 0),
        ("other", None),
        ("small", 0),
    ]
    assert run.outcome == "failed"
    assert run.libraries


@pytest.mark.e2e
def test_call_that_never_ends_keeps_the_other_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "_SMALL_LIMIT", 2.0)
    code = CRASH.replace("END", "import time; time.sleep(60)")

    run = run_of(
        tmp_path,
        code,
        probe=WITH_OTHER.replace(
            "(np.ones(9),)}", '(np.ones(9),), "is_grid": True, "is_timed": False}'
        ),
    )

    assert len(run.failures) == 1
    assert run.failures[0].startswith("other: no answer within 2 s")
    assert [case.name for case in run.cases if case.error == 0] == ["large", "small"]


def test_stops_after_three_crashes(tmp_path: Path) -> None:
    names = ", ".join(f'Case(name="{name}", **usual)' for name in "abcd")
    probe = PROBE.replace("    return [", f"    return [{names},")

    run = run_of(tmp_path, "import os\ndef double(x):\n    os._exit(7)\n", probe=probe)

    assert [bool(case.failed) for case in run.cases] == [True] * 3 + [False] * 4
    assert run.cases[3].skipped == "not run after 3 crashes"


def test_names_why_a_probe_failed(tmp_path: Path) -> None:
    with pytest.raises(ProbeError) as caught:
        run_of(tmp_path, "import missing_module\n")

    assert "ModuleNotFoundError" in caught.value.why
    assert str(tmp_path / "perf.log") in caught.value.fix


@pytest.mark.parametrize(
    ("code", "needed", "text"),
    [
        (
            "def double(x):\n    raise RuntimeError('CUDA out of memory')\n",
            "1 << 20",
            "out of GPU memory, 16.0 MiB were free: RuntimeError: CUDA out of memory",
        ),
        (RIGHT, "1 << 30", "too little GPU memory: about 1.0 GiB needed"),
    ],
)
def test_reports_lack_of_memory(tmp_path: Path, code: str, needed: str, text: str) -> None:
    probe = PROBE.replace("memory=1 << 20", f"memory={needed}")

    run = run_of(tmp_path, code, probe=probe)

    assert run.cases[0].skipped.startswith(text)
    assert run.cases[0].lacks == "memory"
    assert run.faults == ()
    assert run.outcome in {"undecided", "not run"}


def test_driver_without_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DRIVER_STATUS", "100")

    with pytest.raises(GpuError) as caught:
        run_of(tmp_path)

    assert "the driver finds no GPU: no CUDA-capable device" in caught.value.why


def test_refuses_package_without_distribution(tmp_path: Path) -> None:
    request = request_for(tmp_path)
    (tmp_path / "new" / "measured-1.0+cu130.dist-info" / "RECORD").write_text("")

    with pytest.raises(ProbeError) as caught:
        measure(request, Console())

    assert "which no installed package lists" in caught.value.what


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("def double(x):\n    return 2 * x\n", "SAME"),
        pytest.param(
            *("import time\ndef double(x):\n    time.sleep(0.002)\n    return 2 * x\n", "SLOWER"),
            marks=pytest.mark.e2e,  # it measures in many processes, before it says so
        ),
    ],
)
def test_compares_with_another_wheel(tmp_path: Path, code: str, answer: str) -> None:
    request = with_old(request_for(tmp_path, code), tmp_path)

    # On a shared host only what is many times slower counts.
    run = measure(dataclasses.replace(request, tolerance=9.0), Console())

    assert run.answer == answer
    assert run.cases[0].comparison
    assert run.cases[0].comparison.answer == answer


@pytest.mark.e2e
def test_case_without_memory_leaves_the_comparison_undecided(tmp_path: Path) -> None:
    two = WITH_OTHER.replace("(np.ones(9),)}", '(np.ones(9),), "memory": 1 << 30}')
    request = with_old(request_for(tmp_path, probe=two), tmp_path)

    run = measure(dataclasses.replace(request, tolerance=9.0), Console())

    assert [case.comparison.answer for case in run.cases if case.comparison] == ["SAME"]
    assert (run.answer, run.outcome) == ("UNDECIDED", "undecided")
    assert "other was to be timed: too little GPU memory" in run.undecided[0]


@pytest.mark.e2e
def test_larger_error_than_the_old_wheels_is_a_fault(tmp_path: Path) -> None:
    probe = PROBE.replace("1e-12", "1e-3")
    less = "def double(x):\n    return 2.0001 * x\n"

    run = measure(with_old(request_for(tmp_path, less, probe=probe), tmp_path), Console())

    assert "its error is larger than the old wheel's for the same inputs" in run.faults[0]
    assert [case.agreement for case in run.cases[:2]] == ["larger error", "larger error"]
    assert run.outcome == "wrong"


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("framework", "prefix", "answer", "note"),
    [
        ("", "", "SAME", ""),
        ("torch 2.10.0", "", "SAME", "what it is compared with ran with torch 2.10.0"),
        ("", "old ", "UNDECIDED", ""),
    ],
)
def test_compares_with_an_earlier_run(
    tmp_path: Path, framework: str, prefix: str, answer: str, note: str
) -> None:
    request = request_for(tmp_path)
    past = measure(request, Console())
    renamed = [dataclasses.replace(case, name=f"{prefix}{case.name}") for case in past.cases]
    past = dataclasses.replace(past, framework=framework, cases=tuple(renamed))

    run = measure(
        dataclasses.replace(request, past=past, against="perf.json", tolerance=50.0), Console()
    )

    assert run.answer == answer
    assert not note or note in run.notes


def test_earlier_run_of_another_gpu(tmp_path: Path) -> None:
    past = make_run(make_case(faults=("NaN",)), is_busy=True)
    request = request_for(tmp_path, past=past, against="perf.json")

    with pytest.raises(UsageError) as caught:
        measure(request, Console())

    assert caught.value.why.splitlines() == [
        "it was measured with driver 580, this run is with driver none",
        "it was measured by device events, this run is by host clock",
        "it is wrong: forward: NaN",
        "other processes used its GPU",
    ]


@pytest.mark.e2e
def test_old_wheel_that_is_wrong_is_named(tmp_path: Path) -> None:
    wrong = "def double(x):\n    return 3 * x\n"

    run = measure(with_old(request_for(tmp_path), tmp_path, wrong), Console())

    assert "the old wheel's result is wrong here" in run.faults[0]


@pytest.mark.parametrize(
    ("callers", "why"), [("", "ModuleNotFoundError"), ("new", "that isn't the wheel's")]
)
def test_refuses_wheel_without_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: str, why: str
) -> None:
    request = request_for(tmp_path)
    monkeypatch.setenv("CUWHEEL_CALLERS_PYTHONPATH", str(tmp_path / callers) if callers else "")
    (tmp_path / "empty").mkdir()
    place = dataclasses.replace(request.new, folder=tmp_path / "empty")

    with pytest.raises(ProbeError) as caught:
        measure(dataclasses.replace(request, new=place), Console())

    assert why in caught.value.why


@pytest.mark.e2e
@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.stdin.readline()\n",
        "import os\nif os.fork() == 0:\n    raise SystemExit(0)\nos.wait()\n",
        "import os\nos.system('cat; echo noise')\nprint('noise')\n",
    ],
    ids=["reads", "forks", "prints"],
)
def test_package_that_uses_its_streams_or_forks(tmp_path: Path, code: str) -> None:
    run = run_of(tmp_path, f"{code}\ndef double(x):\n    return 2 * x\n")

    assert run.faults == ()


def test_package_sees_only_the_callers_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = ("GH_TOKEN", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
    for name in (*hidden, "CUDA_MODULE_LOADING"):
        monkeypatch.setenv(name, "1")
    code = f"import os\nassert not set({hidden}) & set(os.environ)\n"

    run = run_of(tmp_path, f"{code}os.environ['CUDA_MODULE_LOADING']\n{RIGHT}")

    assert run.faults == ()


@pytest.mark.e2e
def test_runs_in_a_sandbox(tmp_path: Path, driver: Path) -> None:
    require("sandbox", "that a package that is measured sees its environment and the GPU alone")
    (tmp_path / "secret").touch()
    looks = f"\nimport os\nassert not os.path.exists({str(tmp_path / 'secret')!r})\n"
    request = request_for(tmp_path, f"{RIGHT}{looks}")
    place = dataclasses.replace(request.new, confinement=sandbox_of(tmp_path, driver))

    run = measure(dataclasses.replace(request, new=place), Console())

    assert run.faults == ()
    with start_probe(place, request.probe, request.log) as worker:
        worker.start()
        assert len(worker.pids) > 1


@pytest.mark.e2e
def test_waits_for_processes_of_the_probe(tmp_path: Path) -> None:
    lingers = "import subprocess, sys\nsubprocess.Popen(['setsid', 'sleep', '1.5'])\n"
    request = request_for(tmp_path, probe=f"{lingers}{PROBE}")

    with start_probe(request.new, request.probe, request.log) as worker:
        worker.start()
        family = worker.family()

    assert len(family) == 2
    assert not any(process.is_running() for process in family)


def test_failing_rival_is_no_fault(tmp_path: Path) -> None:
    probe = PROBE.replace("rival=lambda x: x + x", "rival=lambda x: x[:3]")

    run = run_of(tmp_path, probe=probe)

    assert run.faults == ()
    assert run.cases[0].timing
    assert run.cases[0].rival_timing is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (PROBE.replace("    return [", "    return []\n    return ["), "has no case that is quick"),
        (PROBE.replace('name="small"', 'name="large"'), "start: the probe failed"),
    ],
)
def test_refuses_malformed_probe(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises((UsageError, ProbeError)) as caught:
        run_of(tmp_path, probe=text)

    assert what in caught.value.what


def test_measures_concurrent_requests(tmp_path: Path) -> None:
    request = request_for(tmp_path, sweep=SweepRequest(requests=20, most=2, model="tiny"))

    run = measure(request, Console())

    assert [(result.clients, result.what, result.requests) for result in run.sweep] == [
        (1, "tiny", 20),
        (2, "tiny", 20),
    ]
    assert run.sweep[0].rate == pytest.approx(10)
    assert run.sweep[0].p95 == pytest.approx(0.1)


def test_probe_without_requests(tmp_path: Path) -> None:
    probe = PROBE.replace("def sweep", "def other")
    sweep = SweepRequest(requests=1, most=1, model=None)

    with pytest.raises(UsageError) as caught:
        run_of(tmp_path, probe=probe, sweep=sweep)

    assert caught.value.fix == "omit --sweep"


ON_TWO = """\
import os

import numpy as np
from measured import double
from perf_case import Case

PACKAGE, FRAMEWORK, GPUS = "measured", "host", "all"
seat = []


def join(*arguments):
    seat.extend(arguments)


def same(seed):
    return (np.random.default_rng(seed).random(1000),)


def call(x):
    if os.environ.get("TEST_CASE") == str(seat[0]):
        raise ValueError(f"not on GPU {seat[0]}")
    if os.environ.get("TEST_WRONG") == str(seat[0]):
        return x
    if os.environ.get("TEST_END") == str(seat[0]):
        os._exit(3)
    return double(x)


def cases():
    assert seat[1] == 2 and seat[2].startswith("127.0.0.1:"), seat
    case = dict(inputs=same, call=call, expected=lambda x: x + x, has_own_kernels=False)
    return [Case(name=f"of {seat[1]}", gpus=2, limit=1e-12, bytes=16000, **case)]
"""
WITHOUT_JOIN = ON_TWO.replace("def join(", "seat.extend((0, 2, '127.0.0.1:'))\n\n\ndef _join(")


@pytest.mark.e2e
def test_starts_a_process_for_each_gpu_with_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")

    run = run_of(tmp_path, probe=ON_TWO)

    assert [gpu.uuid[:8] for gpu in run.gpus] == ["GPU-0707", "GPU-0808"]
    assert run.gpu_names == "2 x Test GPU"
    [case] = run.cases
    assert (case.faults, case.failed, case.error) == ((), "", 0.0)
    assert case.timing


def test_one_process_with_all_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")

    run = run_of(tmp_path, probe=WITHOUT_JOIN)

    assert len(run.gpus) == 2
    assert run.cases[0].timing


MEETS = """\
def join(*arguments):
    seat.extend(arguments)
    host, port = arguments[2].split(":")
    if arguments[0] == 0:
        with socket.create_server((host, int(port))) as server:
            server.settimeout(20)
            server.accept()[0].close()
        return
    for _ in range(200):
        try:
            socket.create_connection((host, int(port))).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(arguments[2])
"""


@pytest.mark.e2e
def test_processes_in_a_sandbox_reach_each_other(
    tmp_path: Path, driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("sandbox", "that processes of several GPUs meet without a network")
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    joins = "def join(*arguments):\n    seat.extend(arguments)\n"
    assert joins in ON_TWO
    request = request_for(tmp_path, probe=f"import socket, time\n{ON_TWO}".replace(joins, MEETS))
    place = dataclasses.replace(request.new, confinement=sandbox_of(tmp_path, driver))

    run = measure(dataclasses.replace(request, new=place), Console())

    assert (run.faults, run.failures) == ((), ())
    assert len(run.gpus) == 2


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("variable", "rank", "failure"),
    [
        ("TEST_CASE", "0", "of 2: ValueError: not on GPU 0"),
        ("TEST_CASE", "1", "of 2: ValueError: not on GPU 1"),
        ("TEST_WRONG", "1", "of 2: the relative error is 5.0e-01"),
        ("TEST_END", "1", "of 2: the process of another GPU ended"),
    ],
)
def test_failure_of_one_of_several_processes_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, rank: str, failure: str
) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    monkeypatch.setenv(variable, rank)

    run = run_of(tmp_path, probe=ON_TWO)

    assert (*run.faults, *run.failures)[0].startswith(failure)
