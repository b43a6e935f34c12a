"""The driver, asked through libraries and programs that answer, err and hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.diagnose.facts import gpus
from cuwheel.diagnose.facts.gpus import Driver, Gpu, find_driver
from cuwheel.diagnose.facts.host import HostFacts
from cuwheel.diagnose.rules.driver import judge_driver
from tests.support.diagnosed import make_driver

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.verdict import Verdict

_SMI_ROW = "0, NVIDIA T4, GPU-1, 7.5, 15360, 535.104.05, [N/A]"


@pytest.fixture(scope="module")
def stubs(module_path: Path) -> Path:
    return make_driver(module_path / "driver")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_TIME_LIMIT", 1.0)
    monkeypatch.setattr(gpus, "_SMI_TIME_LIMIT", 1.0)


def ask(stubs: Path | None, **variables: str) -> Driver:
    library = {"LD_LIBRARY_PATH": str(stubs)} if stubs else {}
    return find_driver({"PATH": "/usr/bin:/bin", **library, **variables})


def write_smi(folder: Path, script: str) -> str:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def make_around(**changes: Any) -> HostFacts:
    usual: dict[str, Any] = {
        "system": "Linux",
        "kernel": "6",
        "architecture": "x86_64",
        "glibc": "2.36",
        "glibcxx": "3.4.30",
        "container": "",
        "is_wsl": False,
        "memory": 1 << 34,
        "free_memory": 1 << 33,
        "cores": 2,
        "free_disk": 1 << 34,
        "shared_memory": 1 << 33,
        "has_device_files": True,
    }
    return HostFacts(**{**usual, **changes})


def make_found(**changes: Any) -> Driver:
    """A driver with two GPUs that a program sees."""
    usual: dict[str, Any] = {
        "asked": "NVML",
        "version": "580.65.06",
        "newest_cuda": "13.0",
        "visible": 2,
        "cuda_code": 0,
        "libcuda": "/usr/lib/libcuda.so.1",
        "gpus": (Gpu(index=0, name="A", capability="90"), Gpu(index=1, name="B", capability="90")),
    }
    return Driver(**{**usual, **changes})


def judge(driver: Driver, around: HostFacts | None = None, **environ: str) -> Verdict:
    [found] = judge_driver(driver, around or make_around(), environ)
    return found


def test_asks_libraries(stubs: Path) -> None:
    found = ask(stubs, STUB_GPUS="2", STUB_CAPABILITY="120")

    assert (found.asked, found.version, found.newest_cuda) == ("NVML", "580.65.06", "13.0")
    assert [gpu.capability for gpu in found.gpus] == ["120", "120"]
    assert (found.visible, found.libcuda) == (2, str(stubs / "libcuda.so.1"))


def test_tells_mig_instances(stubs: Path) -> None:
    [gpu] = ask(stubs, STUB_MIG="1").gpus

    assert (gpu.mig, gpu.instances) == (True, ("Stub", "Stub"))


@pytest.mark.parametrize("fault", ["STUB_HANG", "STUB_CRASH"])
@pytest.mark.usefixtures("impatient")
def test_keeps_what_came_before_fault(stubs: Path, fault: str) -> None:
    found = ask(stubs, **{fault: "1"})

    assert found.version == "580.65.06"
    assert found.visible is None
    assert "NVIDIA's libraries didn't answer" in found.notes[0]


def test_tells_error_of_nvml(stubs: Path) -> None:
    found = ask(stubs, STUB_NVML="18")

    assert judge(found).anchor == "driver-library-mismatch"


def test_tells_lost_gpu(stubs: Path) -> None:
    found = ask(stubs, STUB_GPUS="2", STUB_LOST="1")

    verdicts = list(judge_driver(found, make_around(), {}))
    assert [one.what for one in verdicts if one.level == "broken"] == ["GPU 1 doesn't answer"]


def test_falls_back_to_program(tmp_path: Path) -> None:
    found = ask(None, PATH=write_smi(tmp_path, f"echo '{_SMI_ROW}'"))

    [gpu] = found.gpus
    assert (found.asked, found.version, gpu.capability) == ("nvidia-smi", "535.104.05", "75")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sleep 100", "no answer within 1 s"),
        ("echo broken; exit 1", "status 1, it said: broken"),
        ("echo a, b, c", "status 0, it said: a, b, c"),
        (r"printf 'a\0b, \377\200c\n'", "status 0"),
        ("true", "it said: nothing"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_says_why_program_is_no_help(tmp_path: Path, script: str, why: str) -> None:
    found = ask(None, PATH=write_smi(tmp_path, script))

    assert why in found.notes[0]
    assert found.version == ""


def test_praises_sound_driver() -> None:
    assert judge(make_found()).what == (
        "driver 580.65.06, takes CUDA up to 13.0; 2 GPUs to be used"
    )


_ABSENT: dict[str, Any] = {
    "visible": None,
    "cuda_code": None,
    "libcuda": "",
    "cuda_fault": "libcuda.so.1: cannot open",
    "gpus": (),
}


@pytest.mark.parametrize(
    ("changes", "around", "anchor"),
    [
        ({**_ABSENT, "version": "", "devices": 1}, {}, "libcuda-driver-missing"),
        (_ABSENT, {}, "libcuda-driver-missing"),
        (_ABSENT, {"container": "Docker"}, "docker-no-gpu-runtime"),
        (_ABSENT, {"is_wsl": True}, "libcuda-driver-missing"),
        ({"nvml_code": 4, "nvml_fault": "no"}, {}, "permission-denied"),
        ({"cuda_code": 803}, {}, "driver-library-mismatch"),
        ({"cuda_code": 804}, {}, "driver-too-old"),
        ({"cuda_code": 34, "is_stub": True}, {}, "libcuda-driver-missing"),
        ({"cuda_code": 100, "visible": None}, {}, "no-cuda-device"),
    ],
)
def test_names_fault_of_driver(
    changes: dict[str, Any], around: dict[str, Any], anchor: str
) -> None:
    found = judge(make_found(**changes), make_around(**around))

    assert (found.level, found.anchor) == ("broken", anchor)


def test_only_notes_that_build_machine_has_no_gpu() -> None:
    found = judge(make_found(**{**_ABSENT, "version": ""}), make_around())

    assert (found.level, found.anchor) == ("note", "no-cuda-device")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "which means none"),
        ("-1", "which means none"),
        ("7", "the GPUs here are 0 to 1"),
        ("all", '"all" is neither a number nor the name of a GPU'),
        ("GPU-123", "the name of none that is here"),
    ],
)
def test_says_why_no_gpu_is_visible(value: str, why: str) -> None:
    found = judge(make_found(cuda_code=100, visible=None), CUDA_VISIBLE_DEVICES=value)

    assert why in found.cause
    assert found.fix.startswith("unset CUDA_VISIBLE_DEVICES")


def test_warns_of_gpus_behind_invalid_one() -> None:
    found = list(judge_driver(make_found(visible=1), None, {"CUDA_VISIBLE_DEVICES": "0,5,1"}))

    assert [one.level for one in found] == ["warning"]
    assert '"5"' in found[0].cause


def test_warns_of_small_shared_memory() -> None:
    around = make_around(container="Docker", shared_memory=64 << 20)

    found = list(judge_driver(make_found(), around, {}))

    assert [one.anchor for one in found if one.anchor] == ["nccl-shm-too-small"]
