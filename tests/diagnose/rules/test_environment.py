"""What is said of frameworks; whole environments are judged in tests/diagnose/test_session.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.diagnose.facts.imports import Device, FrameworkFacts
from cuwheel.diagnose.rules.environment import judge_frameworks
from tests.support.diagnosed import Env, look_into, verdict_on

if TYPE_CHECKING:
    from pathlib import Path


_GPU = Gpu(index=0, name="A", capability="90")
_TORCH = FrameworkFacts(
    name="torch",
    version="2.11.0",
    cuda="13.0",
    was_imported=True,
    archs=("sm_90",),
    available=True,
    devices=(Device(name="A", capability="90"),),
)


def judged(torch: FrameworkFacts = _TORCH, **changes: Any) -> list[tuple[str, str]]:
    """Level and anchor of each verdict."""
    facts = {"version": "580.65.06", "newest_cuda": "13.0", "gpus": (_GPU,), **changes}
    found = judge_frameworks([torch], Driver(**facts), {}, {})
    return [(one.level, one.anchor or "") for one in found]


@pytest.mark.parametrize("version", ["580.65.06", "580.105.08", "590.1", "1000.10.01", ""])
def test_takes_driver_that_is_new_enough(version: str) -> None:
    assert judged(version=version) == [("ok", "")]


@pytest.mark.parametrize("version", ["580.9.10", "580.65.05", "575.57.08", "99.100.0"])
def test_names_driver_below_the_oldest_of_its_cuda(version: str) -> None:
    assert judged(version=version) == [("broken", "driver-too-old")]


def test_names_torch_without_cuda(env: Env, driver: Path) -> None:
    env.install_torch(cuda=None, available=False)

    found = verdict_on(look_into(env, LD_LIBRARY_PATH=str(driver)), "built-without-cuda")

    assert found.level == "broken"


def test_names_driver_that_is_too_old(env: Env, driver: Path) -> None:
    env.install_torch()

    report = look_into(
        env, LD_LIBRARY_PATH=str(driver), STUB_DRIVER="535.104.05", STUB_CUDA="12020"
    )

    found = verdict_on(report, "driver-too-old")
    assert found.what == "driver 535.104.05 is too old for torch 2.11.0+cu130"
    assert "needs driver 580.65.06 or newer" in found.cause


@pytest.mark.parametrize(
    ("line", "anchor"),
    [
        (
            "raise ImportError('libcudnn.so.9: cannot open shared object file')",
            "libcudnn-not-found",
        ),
        (
            "raise ImportError('/x/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4')",
            "nvjitlink-mismatch",
        ),
        ("raise ImportError('x: undefined symbol: ncclCommRegister')", "nccl-version-mismatch"),
        ("raise ImportError('version `GLIBCXX_3.4.32` not found')", "glibcxx-too-old"),
        ("raise ImportError('version `GLIBC_2.38` not found')", "glibc-too-old"),
        ("raise ValueError('odd')", "diagnose-import-failed"),
        ("import os; os.abort()", "diagnose-import-failed"),
    ],
)
def test_names_why_torch_is_not_imported(env: Env, line: str, anchor: str) -> None:
    env.install_torch(more=line)

    report = look_into(env)

    found = verdict_on(report, anchor)
    assert found.what == "torch 2.11.0+cu130 can't be imported"
    assert report.frameworks[0].cuda == "13.0"
