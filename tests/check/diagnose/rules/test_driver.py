"""Verdicts on driver and GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.check.diagnose.rules.driver import judge_driver
from tests.check.diagnose.samples import driver_verdict, make_host


def make_driver(**changes: Any) -> Driver:
    """A driver with two GPUs that a program sees."""
    usual: dict[str, Any] = {
        "asked": "NVML",
        "version": "580.65.06",
        "newest_cuda": "13.0",
        "visible": 2,
        "cuda_code": 0,
        "libcuda": "/usr/lib/libcuda.so.1",
        "gpus": (
            DriverGpu(index=0, name="A", capability="90"),
            DriverGpu(index=1, name="B", capability="90"),
        ),
    }
    return Driver(**{**usual, **changes})


def test_praises_sound_driver() -> None:
    assert (
        driver_verdict(make_driver()).what
        == "driver 580.65.06, supports CUDA up to 13.0; 2 GPUs usable"
    )


_ABSENT: dict[str, Any] = {
    "visible": None,
    "cuda_code": None,
    "libcuda": "",
    "cuda_fault": "libcuda.so.1: cannot open",
    "gpus": (),
}


@pytest.mark.parametrize(
    ("changes", "host", "anchor"),
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
def test_names_fault_of_driver(changes: dict[str, Any], host: dict[str, Any], anchor: str) -> None:
    verdict = driver_verdict(make_driver(**changes), make_host(**host))

    assert (verdict.level, verdict.anchor) == ("broken", anchor)


def test_takes_folder_of_unusable_libcuda_from_the_path() -> None:
    fault = "/old/libcuda.so.1: file too short"
    driver = make_driver(**{**_ABSENT, "version": "", "cuda_fault": fault})

    verdict = driver_verdict(driver, LD_LIBRARY_PATH="/good:/old")

    assert (verdict.level, verdict.cause) == ("broken", fault)
    assert verdict.command == "export LD_LIBRARY_PATH=/good"
    assert "LD_LIBRARY_PATH" not in driver_verdict(driver).fix


@pytest.mark.parametrize(
    ("value", "level"),
    [("graphics,utility", "warning"), ("compute,utility", "note"), ("all", "note")],
)
def test_names_capabilities_without_compute(value: str, level: str) -> None:
    driver, host = make_driver(**{**_ABSENT, "version": ""}), make_host(container="Docker")

    verdict = driver_verdict(driver, host, NVIDIA_DRIVER_CAPABILITIES=value)

    assert verdict.level == level


def test_only_notes_that_build_machine_has_no_gpu() -> None:
    verdict = driver_verdict(make_driver(**{**_ABSENT, "version": ""}), make_host())

    assert (verdict.level, verdict.anchor) == ("note", "no-cuda-device")


@pytest.mark.parametrize("value", ["", "-1", "7", "all", "GPU-123"])
def test_explains_why_no_gpu_is_visible(value: str) -> None:
    verdict = driver_verdict(make_driver(cuda_code=100, visible=None), CUDA_VISIBLE_DEVICES=value)

    assert verdict.cause == f"it is {value!r}, and the GPUs here are 0 to 1"
    assert verdict.fix.startswith("unset CUDA_VISIBLE_DEVICES")


def test_warns_of_gpus_behind_invalid_one() -> None:
    [verdict] = judge_driver(make_driver(visible=1), None, {"CUDA_VISIBLE_DEVICES": "0,5,1"})

    assert verdict.level == "warning"
    assert '"5"' in verdict.cause


def test_warns_of_small_shared_memory() -> None:
    host = make_host(container="Docker", shared_memory=64 << 20)

    anchors = {verdict.anchor for verdict in judge_driver(make_driver(), host, {})}

    assert anchors == {"", "nccl-shm-too-small"}
