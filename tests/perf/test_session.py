"""Whole runs, with a real probe in a process of its own; the driver's GPU is the host's memory."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from cuwheel.errors import GpuError, ProbeError, UsageError
from cuwheel.paths import ROOT
from cuwheel.perf.request import SweepRequest
from cuwheel.perf.session import measure
from cuwheel.perf.worker import start_worker
from cuwheel.sandbox.backends import choose_sandbox
from cuwheel.sandbox.confinement import Confinement
from cuwheel.sources.checkouts import commit_of
from cuwheel.system.console import Console
from cuwheel.version import __version__
from tests.support.measured import (
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
    found = 2 * x
    found[777] += 0.02
    return found
"""
TIRED = """\
calls = []
def double(x):
    calls.append(1)
    return 2 * x if len(calls) < 9 else x
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(autouse=True)
def gpu(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))


def sandbox_of(folder: Path, driver: Path) -> Confinement:
    return Confinement(
        sandbox=choose_sandbox(),
        environment=Path(sys.prefix).resolve(),
        base=Path(sys.executable).resolve(),
        folder=folder / "own",
        read=(folder / "new", driver),
        has_gpu=True,
    )


def test_measures_what_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEASURED_LIKE", "this")
    run = measure(request_for(tmp_path), Console())

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


def test_runs_all_cases_without_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    run = measure(request_for(tmp_path, is_quick=False), Console())

    assert [case.name for case in run.cases if case.timing] == ["large", "slow to measure", "two"]


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("def double(x):\n    return 2.001 * x\n", "the relative error is"),
        ("def double(x):\n    return x * float('nan')\n", "the result contains NaN or infinity"),
        (TIRED, "after many calls the relative error is"),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, code: str, fault: str) -> None:
    run = measure(request_for(tmp_path, code), Console())

    assert run.faults[0].startswith(f"large: {fault}")


def test_names_the_block_where_one_of_a_million_elements_is_wrong(tmp_path: Path) -> None:
    probe = PROBE.replace("random(1000)", "random(1 << 20)").replace("1e-12", "1e-4")

    run = measure(request_for(tmp_path, ONE_WRONG, probe=probe), Console())

    assert run.faults[0].startswith("large: the relative error of elements 768 to 1023 is")
    assert run.cases[0].error
    assert run.cases[0].error < run.cases[0].limit


def test_goes_on_behind_a_case_that_raises(tmp_path: Path) -> None:
    code = "def double(x):\n    if x.size == 1000:\n        raise ValueError('not today')\n"
    probe = PROBE.replace(
        'Case(name="small"',
        'Case(name="other", **{**usual, "inputs": lambda _: (np.ones(9),)}),\n'
        '        Case(name="small"',
    )

    run = measure(request_for(tmp_path, f"{code}    return 2 * x\n", probe=probe), Console())

    assert run.failures == ("large: ValueError: not today", "small: ValueError: not today")
    assert [case.name for case in run.cases if case.timing] == ["other"]


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("    return x[:5]\n", "its shape is (5,), and (1000,) was expected"),
        ("    return x, x\n", "it returns 2 arrays, and 1 were expected"),
    ],
)
def test_other_shape_is_wrong(tmp_path: Path, code: str, fault: str) -> None:
    run = measure(request_for(tmp_path, f"def double(x):\n{code}"), Console())

    assert run.faults[0] == f"large: {fault}"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os\ndef double(x):\n    os._exit(7)\n", "its process ended with status 7"),
        ("import missing_module\n", "ModuleNotFoundError"),
    ],
)
def test_tells_why_a_probe_failed(tmp_path: Path, code: str, why: str) -> None:
    with pytest.raises(ProbeError) as caught:
        measure(request_for(tmp_path, code), Console())

    assert why in caught.value.why
    assert str(tmp_path / "perf.log") in caught.value.fix


def test_memory_that_the_package_eats_is_its_fault(tmp_path: Path) -> None:
    code = "def double(x):\n    raise RuntimeError('CUDA out of memory')\n"

    run = measure(request_for(tmp_path, code), Console())

    assert run.faults[0].startswith("large: out of GPU memory: 16.0 MiB were free")


def test_leaves_out_what_needs_more_memory_than_there_is(tmp_path: Path) -> None:
    probe = PROBE.replace("memory=1 << 20", "memory=1 << 30")

    run = measure(request_for(tmp_path, probe=probe), Console())

    assert run.cases[0].skipped == "too little GPU memory: about 1.0 GiB needed"


def test_driver_without_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DRIVER_STATUS", "100")

    with pytest.raises(GpuError) as caught:
        measure(request_for(tmp_path), Console())

    assert "the driver finds no GPU: no CUDA-capable device" in caught.value.why


def test_package_that_is_only_on_a_path(tmp_path: Path) -> None:
    asked = request_for(tmp_path)
    (tmp_path / "new" / "measured-1.0+cu130.dist-info" / "RECORD").write_text("")

    with pytest.raises(ProbeError) as caught:
        measure(asked, Console())

    assert "which no installed package lists" in caught.value.what


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("def double(x):\n    return 2 * x\n", "SAME"),
        ("import time\ndef double(x):\n    time.sleep(0.02)\n    return 2 * x\n", "SLOWER"),
    ],
)
def test_compares_with_another_wheel(tmp_path: Path, code: str, answer: str) -> None:
    asked = request_for(tmp_path, code)
    old = unpack(write_package(tmp_path / "old-wheel"), tmp_path / "old")
    place = dataclasses.replace(asked.new, folder=old, name="the old")

    # A host that others use: only what is many times slower counts here.
    run = measure(dataclasses.replace(asked, old=place, against="old", tolerance=9.0), Console())

    assert run.answer == answer
    assert run.cases[0].comparison
    assert run.cases[0].comparison.answer == answer


def test_compares_with_an_earlier_run(tmp_path: Path) -> None:
    asked = request_for(tmp_path)
    first = measure(asked, Console())

    second = measure(
        dataclasses.replace(asked, past=first, against="perf.json", tolerance=50.0), Console()
    )

    assert second.answer == "SAME"


def test_earlier_run_with_another_framework_is_noted(tmp_path: Path) -> None:
    asked = request_for(tmp_path)
    past = dataclasses.replace(measure(asked, Console()), framework="torch 2.10.0")

    run = measure(dataclasses.replace(asked, past=past, against="perf.json"), Console())

    assert "what it is compared with ran with torch 2.10.0" in run.notes


def test_earlier_run_of_another_gpu(tmp_path: Path) -> None:
    past = make_run(make_case(faults=("NaN",)))
    asked = request_for(tmp_path, past=past, against="perf.json")

    with pytest.raises(UsageError) as caught:
        measure(asked, Console())

    assert caught.value.why.splitlines() == [
        "it was measured with driver 580, this run is with driver none",
        "it was measured by device events, this run is by host clock",
        "it is wrong: forward: NaN",
    ]


def test_nothing_in_common_with_an_earlier_run_is_undecided(tmp_path: Path) -> None:
    asked = request_for(tmp_path)
    first = measure(asked, Console())
    renamed = tuple(dataclasses.replace(case, name=f"old {case.name}") for case in first.cases)
    past = dataclasses.replace(first, cases=renamed)

    run = measure(dataclasses.replace(asked, past=past, against="perf.json"), Console())

    assert run.answer == "UNDECIDED"


def test_old_wheel_that_is_wrong_is_named(tmp_path: Path) -> None:
    asked = request_for(tmp_path)
    wrong = "def double(x):\n    return 3 * x\n"
    old = unpack(write_package(tmp_path / "old-wheel", wrong), tmp_path / "old")
    place = dataclasses.replace(asked.new, folder=old, name="the old")

    run = measure(dataclasses.replace(asked, old=place, against="old"), Console())

    assert "the old wheel's result is wrong here" in run.faults[0]


def test_wheel_that_lacks_the_module_is_not_measured(tmp_path: Path) -> None:
    asked = request_for(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = dataclasses.replace(asked.new, folder=elsewhere)

    with pytest.raises(ProbeError) as caught:
        measure(dataclasses.replace(asked, new=place), Console())

    assert "ModuleNotFoundError" in caught.value.why


def test_module_from_elsewhere_is_not_the_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request_for(tmp_path)
    monkeypatch.setenv("CUWHEEL_CALLERS_PYTHONPATH", str(tmp_path / "new"))
    (tmp_path / "empty").mkdir()
    place = dataclasses.replace(asked.new, folder=tmp_path / "empty")

    with pytest.raises(ProbeError) as caught:
        measure(dataclasses.replace(asked, new=place), Console())

    assert "that isn't the wheel's" in caught.value.why


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.stdin.readline()\n",
        "import os\nif os.fork() == 0:\n    raise SystemExit(0)\nos.wait()\n",
        "import os\nos.system('cat; echo noise')\nprint('noise')\n",
    ],
    ids=["reads", "forks", "prints"],
)
def test_package_that_meddles_with_its_process(tmp_path: Path, code: str) -> None:
    run = measure(request_for(tmp_path, f"{code}\ndef double(x):\n    return 2 * x\n"), Console())

    assert run.faults == ()


def test_package_sees_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", "hidden")
    monkeypatch.setenv("CUDA_MODULE_LOADING", "LAZY")
    code = "import os\nassert 'GH_TOKEN' not in os.environ\nos.environ['CUDA_MODULE_LOADING']\n"

    run = measure(request_for(tmp_path, f"{code}def double(x):\n    return 2 * x\n"), Console())

    assert run.faults == ()


def test_package_sees_nothing_of_how_cuwheel_compiles_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
    for name in names:
        monkeypatch.setenv(name, "1")
    code = f"import os\nassert not set({names}) & set(os.environ)\n"

    run = measure(request_for(tmp_path, f"{code}{RIGHT}"), Console())

    assert run.faults == ()


def test_runs_in_a_sandbox_where_its_place_has_one(tmp_path: Path, driver: Path) -> None:
    require("sandbox", "that a package that is measured sees its environment and the GPU alone")
    (tmp_path / "secret").touch()
    looks = f"\nimport os\nassert not os.path.exists({str(tmp_path / 'secret')!r})\n"
    asked = request_for(tmp_path, f"{RIGHT}{looks}")
    place = dataclasses.replace(asked.new, confinement=sandbox_of(tmp_path, driver))

    run = measure(dataclasses.replace(asked, new=place), Console())

    assert run.faults == ()
    with start_worker(place, asked.probe, asked.log) as worker:
        worker.start()
        assert len(worker.pids) > 1


def test_ends_when_the_processes_that_a_probe_has_started_are_gone(tmp_path: Path) -> None:
    lingers = "import subprocess, sys\nsubprocess.Popen(['setsid', 'sleep', '1.5'])\n"
    asked = request_for(tmp_path, probe=f"{lingers}{PROBE}")

    with start_worker(asked.new, asked.probe, asked.log) as worker:
        worker.start()
        family = worker.family()

    assert len(family) == 2
    assert not any(one.is_running() for one in family)


def test_rival_that_fails_costs_only_itself(tmp_path: Path) -> None:
    probe = PROBE.replace("rival=lambda x: x + x", "rival=lambda x: x[:3]")

    run = measure(request_for(tmp_path, probe=probe), Console())

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
def test_probe_that_is_not_well_formed(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises((UsageError, ProbeError)) as caught:
        measure(request_for(tmp_path, probe=text), Console())

    assert what in caught.value.what


def test_makes_requests_at_once(tmp_path: Path) -> None:
    asked = request_for(tmp_path, sweep=SweepRequest(requests=20, most=2, model="tiny"))

    run = measure(asked, Console())

    assert [(one.clients, one.what, one.requests) for one in run.sweep] == [
        (1, "tiny", 20),
        (2, "tiny", 20),
    ]
    assert run.sweep[0].rate == pytest.approx(10)
    assert run.sweep[0].p95 == pytest.approx(0.1)


def test_probe_without_requests(tmp_path: Path) -> None:
    probe = PROBE.replace("def sweep", "def other")
    sweep = SweepRequest(requests=1, most=1, model=None)

    with pytest.raises(UsageError) as caught:
        measure(request_for(tmp_path, probe=probe, sweep=sweep), Console())

    assert caught.value.fix == "omit --sweep"


ON_TWO = """\
import os

import numpy as np
from measured import double
from perf_case import Case

PACKAGE, FRAMEWORK, GPUS = "measured", "host", "all"
seat = []


def join(*given):
    seat.extend(given)


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


def test_each_gpu_gets_a_process_where_the_probe_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")

    run = measure(request_for(tmp_path, probe=ON_TWO), Console())

    assert [one.uuid[:8] for one in run.gpus] == ["GPU-0707", "GPU-0808"]
    assert run.gpu_names == "2 x Test GPU"
    [case] = run.cases
    assert (case.faults, case.failed, case.error) == ((), "", 0.0)
    assert case.timing


def test_one_process_with_all_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")

    run = measure(request_for(tmp_path, probe=WITHOUT_JOIN), Console())

    assert len(run.gpus) == 2
    assert run.cases[0].timing


MEETS = """\
def join(*given):
    seat.extend(given)
    host, port = given[2].split(":")
    if given[0] == 0:
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
    raise TimeoutError(given[2])
"""


def test_processes_in_a_sandbox_reach_each_other(
    tmp_path: Path, driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("sandbox", "that processes of several GPUs meet without a network")
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    joins = "def join(*given):\n    seat.extend(given)\n"
    assert joins in ON_TWO
    asked = request_for(tmp_path, probe=f"import socket, time\n{ON_TWO}".replace(joins, MEETS))
    place = dataclasses.replace(asked.new, confinement=sandbox_of(tmp_path, driver))

    run = measure(dataclasses.replace(asked, new=place), Console())

    assert (run.faults, run.failures) == ((), ())
    assert len(run.gpus) == 2


@pytest.mark.parametrize("rank", ["0", "1"])
def test_an_error_of_one_of_several_processes_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str
) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    monkeypatch.setenv("TEST_CASE", rank)

    run = measure(request_for(tmp_path, probe=ON_TWO), Console())

    assert run.failures == (f"of 2: ValueError: not on GPU {rank}",)


def test_a_wrong_result_on_the_second_gpu_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    monkeypatch.setenv("TEST_WRONG", "1")

    run = measure(request_for(tmp_path, probe=ON_TWO), Console())

    assert run.faults[0].startswith("of 2: the relative error is 5.0e-01")


def test_a_process_of_several_that_ends_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DRIVER_GPUS", "2")
    monkeypatch.setenv("TEST_END", "1")

    run = measure(request_for(tmp_path, probe=ON_TWO), Console())

    assert "the process of another GPU ended" in run.failures[0]
