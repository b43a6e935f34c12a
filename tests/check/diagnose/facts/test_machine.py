"""The driver, read by libraries and programs that answer, fail and hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.check.diagnose.facts import machine
from cuwheel.check.diagnose.facts.machine import Driver, find_driver
from cuwheel.check.diagnose.rules.driver import judge_driver
from tests.check.diagnose.samples import driver_verdict, make_host


def read_stubs(driver: Path, **variables: str) -> Driver:
    return find_driver({"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(driver), **variables})


def test_reads_libraries(driver: Path) -> None:
    facts = read_stubs(driver, STUB_GPUS="2", STUB_CAPABILITY="120")

    assert (facts.asked, facts.version, facts.newest_cuda) == ("NVML", "580.65.06", "13.0")
    assert [gpu.capability for gpu in facts.gpus] == ["120", "120"]
    assert (facts.visible, facts.libcuda) == (2, str(driver / "libcuda.so.1"))
    assert facts.visible_uuids[1] == "GPU-01010101-0101-0101-0101-010101010101"


def test_reads_mig_instances(driver: Path) -> None:
    [gpu] = read_stubs(driver, STUB_MIG="1").gpus

    assert (gpu.mig, gpu.instances) == (True, ("Stub", "Stub"))


@pytest.mark.parametrize(("fault", "limit"), [("STUB_HANG", 3.0), ("STUB_CRASH", 60.0)])
def test_keeps_what_came_before_fault(
    driver: Path, fault: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_TIME_LIMIT", limit)

    facts = read_stubs(driver, **{fault: "1"})

    assert (facts.version, facts.visible) == ("580.65.06", None)
    assert "NVIDIA's libraries didn't answer" in facts.notes[0]


def test_reads_error_of_nvml(driver: Path) -> None:
    assert driver_verdict(read_stubs(driver, STUB_NVML="18")).anchor == "driver-library-mismatch"


def test_reads_lost_gpu(driver: Path) -> None:
    facts = read_stubs(driver, STUB_GPUS="2", STUB_LOST="1")

    verdicts = judge_driver(facts, make_host(), {})
    assert [verdict.what[:5] for verdict in verdicts if verdict.level == "broken"] == ["GPU 1"]
