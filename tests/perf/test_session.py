"""Whole runs, with a real probe in a process of its own; the driver's GPU is the host's memory."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import GpuError, ProbeError, UsageError
from cuwheel.perf.session import SweepRequest, measure
from cuwheel.system.console import Console
from tests.support.measured import (
    PROBE,
    install_driver,
    make_run,
    request_for,
    unpack,
    write_package,
)

if TYPE_CHECKING:
    from pathlib import Path


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
        ("def double(x):\n    return x * float('nan')\n", "the result holds NaN or infinity"),
        (TIRED, "after many calls the relative error is"),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, code: str, fault: str) -> None:
    run = measure(request_for(tmp_path, code), Console())

    assert run.faults[0].startswith(f"large: {fault}")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def double(x):\n    raise ValueError('not today')\n", "ValueError: not today"),
        ("import os\ndef double(x):\n    os._exit(7)\n", "its process ended with status 7"),
        ("def double(x):\n    return x[:5]\n", "its shape is (5,), and (1000,) was expected"),
        ("def double(x):\n    return x, x\n", "it gives 2 arrays, and 1 were expected"),
        ("import missing_module\n", "ModuleNotFoundError"),
    ],
)
def test_tells_why_a_probe_failed(tmp_path: Path, code: str, why: str) -> None:
    with pytest.raises(ProbeError) as caught:
        measure(request_for(tmp_path, code), Console())

    assert why in caught.value.why
    assert str(tmp_path / "perf.log") in caught.value.fix


def test_leaves_out_what_needs_more_memory(tmp_path: Path) -> None:
    code = "def double(x):\n    raise RuntimeError('CUDA out of memory')\n"

    run = measure(request_for(tmp_path, code), Console())

    assert run.cases[0].skipped == "too little GPU memory: about 1.0 MiB needed"


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


def test_earlier_run_of_another_gpu(tmp_path: Path) -> None:
    asked = request_for(tmp_path, past=make_run(), against="perf.json")

    with pytest.raises(UsageError) as caught:
        measure(asked, Console())

    assert "it is of Test GPU with driver 580" in caught.value.why


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

    assert caught.value.fix == "leave --sweep out"
