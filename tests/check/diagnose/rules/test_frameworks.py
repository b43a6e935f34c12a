"""Verdicts on frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuwheel.check.diagnose.facts.imports import Device, FrameworkFacts
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.check.diagnose.rules.frameworks import judge_frameworks
from tests.check.diagnose.samples import make_context
from tests.support.check.environments import Env, look_into, verdict_on

_GPU = DriverGpu(index=0, name="A", capability="90")
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
    context = make_context(frameworks=(torch,), driver=Driver(**facts))
    verdicts = judge_frameworks(context, {})
    return [(verdict.level, verdict.anchor) for verdict in verdicts]


@pytest.mark.parametrize("version", ["580.65.06", "580.105.08", "590.1", "1000.10.01", ""])
def test_takes_driver_that_is_new_enough(version: str) -> None:
    assert judged(version=version) == [("ok", "")]


@pytest.mark.parametrize("version", ["580.9.10", "580.65.05", "575.57.08", "99.100.0"])
def test_names_driver_below_the_oldest_of_its_cuda(version: str) -> None:
    assert judged(version=version) == [("broken", "driver-too-old")]


@pytest.mark.parametrize(
    ("cuda", "stub", "anchor"),
    [(None, "580.65.06", "built-without-cuda"), ("13.0", "535.104.05", "driver-too-old")],
)
def test_names_torch_that_does_not_fit(
    env: Env, driver: Path, cuda: str | None, stub: str, anchor: str
) -> None:
    env.install_torch(cuda=cuda, available=cuda is not None)

    report = look_into(env, LD_LIBRARY_PATH=str(driver), STUB_DRIVER=stub)

    assert verdict_on(report, anchor).level == "broken"


@pytest.mark.parametrize(
    ("line", "anchor"),
    [
        ("raise ImportError('libcudnn.so.9: cannot open shared object')", "libcudnn-not-found"),
        ("raise ImportError('x: undefined symbol: __nvJitLinkGet_12_4')", "nvjitlink-mismatch"),
        ("raise ImportError('x: undefined symbol: ncclCommRegister')", "nccl-version-mismatch"),
        ("raise ImportError('version `GLIBCXX_3.4.32` not found')", "glibcxx-too-old"),
        ("raise ImportError('version `GLIBC_2.38` not found')", "glibc-too-old"),
        ("raise ValueError('odd')", "diagnose-import-failed"),
        ("import os; os.abort()", "diagnose-import-failed"),
    ],
)
def test_explains_failed_import_of_torch(env: Env, line: str, anchor: str) -> None:
    env.install_torch(more=line)

    report = look_into(env)

    assert verdict_on(report, anchor).level == "broken"
    assert report.environment.frameworks[0].cuda == "13.0"
