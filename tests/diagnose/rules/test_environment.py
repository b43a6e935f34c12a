"""What is said of frameworks; whole environments are judged in tests/diagnose/test_session.py."""

from __future__ import annotations

from typing import Any

import pytest

from cuwheel.diagnose.facts.environment import Device, FrameworkFacts
from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.diagnose.rules.environment import judge_frameworks

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
    found = judge_frameworks([torch], Driver(**facts), ())
    return [(one.level, one.anchor or "") for one in found]


@pytest.mark.parametrize("version", ["580.65.06", "580.105.08", "590.1", "1000.10.01", ""])
def test_takes_driver_that_is_new_enough(version: str) -> None:
    assert judged(version=version) == [("ok", "")]


@pytest.mark.parametrize("version", ["580.9.10", "580.65.05", "575.57.08", "99.100.0"])
def test_names_driver_that_is_too_old(version: str) -> None:
    assert judged(version=version) == [("broken", "driver-too-old")]
