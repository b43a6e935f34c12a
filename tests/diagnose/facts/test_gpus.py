"""The driver, asked through libraries and programs that answer, err and hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts import gpus
from cuwheel.diagnose.facts.gpus import Driver, find_driver
from cuwheel.diagnose.rules.driver import judge_driver
from tests.support.diagnosed import make_driver
from tests.support.drivers import judge, make_host

if TYPE_CHECKING:
    from pathlib import Path


_SMI_ROW = "0, NVIDIA T4, GPU-1, 7.5, 15360, 535.104.05, [N/A]"


@pytest.fixture(scope="module")
def stubs(module_path: Path) -> Path:
    return make_driver(module_path / "driver")


def ask(stubs: Path | None, **variables: str) -> Driver:
    library = {"LD_LIBRARY_PATH": str(stubs)} if stubs else {}
    return find_driver({"PATH": "/usr/bin:/bin", **library, **variables})


def write_smi(folder: Path, script: str) -> str:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_asks_libraries(stubs: Path) -> None:
    found = ask(stubs, STUB_GPUS="2", STUB_CAPABILITY="120")

    assert (found.asked, found.version, found.newest_cuda) == ("NVML", "580.65.06", "13.0")
    assert [gpu.capability for gpu in found.gpus] == ["120", "120"]
    assert (found.visible, found.libcuda) == (2, str(stubs / "libcuda.so.1"))


def test_tells_mig_instances(stubs: Path) -> None:
    [gpu] = ask(stubs, STUB_MIG="1").gpus

    assert (gpu.mig, gpu.instances) == (True, ("Stub", "Stub"))


@pytest.mark.parametrize(("fault", "limit"), [("STUB_HANG", 3.0), ("STUB_CRASH", 60.0)])
def test_keeps_what_came_before_fault(
    stubs: Path, fault: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "_TIME_LIMIT", limit)

    found = ask(stubs, **{fault: "1"})

    assert found.version == "580.65.06"
    assert found.visible is None
    assert "NVIDIA's libraries didn't answer" in found.notes[0]


def test_tells_error_of_nvml(stubs: Path) -> None:
    found = ask(stubs, STUB_NVML="18")

    assert judge(found).anchor == "driver-library-mismatch"


def test_tells_lost_gpu(stubs: Path) -> None:
    found = ask(stubs, STUB_GPUS="2", STUB_LOST="1")

    verdicts = list(judge_driver(found, make_host(), {}))
    assert [one.what for one in verdicts if one.level == "broken"] == ["GPU 1 doesn't answer"]


def test_falls_back_to_program(tmp_path: Path) -> None:
    found = ask(None, PATH=write_smi(tmp_path, f"echo '{_SMI_ROW}'"))

    [gpu] = found.gpus
    assert (found.asked, found.version, gpu.capability) == ("nvidia-smi", "535.104.05", "75")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo broken; exit 1", "status 1, it printed: broken"),
        ("echo a, b, c", "status 0, it printed: a, b, c"),
        (r"printf 'a\0b, \377\200c\n'", "status 0"),
        ("true", "it printed: nothing"),
    ],
)
def test_says_why_program_is_no_help(tmp_path: Path, script: str, why: str) -> None:
    found = ask(None, PATH=write_smi(tmp_path, script))

    assert why in found.notes[0]
    assert found.version == ""


def test_goes_on_past_program_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_SMI_TIME_LIMIT", 1.0)

    found = ask(None, PATH=write_smi(tmp_path, "sleep 100"))

    assert "no answer within 1 s" in found.notes[0]
