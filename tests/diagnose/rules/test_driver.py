"""What is said of driver and GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.diagnose.rules.driver import judge_driver
from tests.support.drivers import judge, make_host


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


def test_praises_sound_driver() -> None:
    assert judge(make_found()).what == ("driver 580.65.06, supports CUDA up to 13.0; 2 GPUs usable")


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
    found = judge(make_found(**changes), make_host(**host))

    assert (found.level, found.anchor) == ("broken", anchor)


def test_only_notes_that_build_machine_has_no_gpu() -> None:
    found = judge(make_found(**{**_ABSENT, "version": ""}), make_host())

    assert (found.level, found.anchor) == ("note", "no-cuda-device")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "which means none"),
        ("-1", "which means none"),
        ("7", "the GPUs here are 0 to 1"),
        ("all", '"all" is neither a number nor the name of a GPU'),
        ("GPU-123", "which names none of the GPUs here"),
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
    host = make_host(container="Docker", shared_memory=64 << 20)

    found = list(judge_driver(make_found(), host, {}))

    assert [one.anchor for one in found if one.anchor] == ["nccl-shm-too-small"]
