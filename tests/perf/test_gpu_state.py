"""Clocks that were sampled, as one; a machine whose NVML is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pynvml

from cuwheel.perf.gpu_state import GpuMonitor, merge_clocks
from cuwheel.perf.records import Clocks

if TYPE_CHECKING:
    import pytest


def test_merges_stretches_of_time() -> None:
    cool = Clocks(sm=(1900, 1980, 1980), memory=(2619,) * 3, temperature=40, power=200.0)
    hot = Clocks(
        sm=(1200, 1500, 1980), memory=(2619,) * 3, temperature=80, power=700.0, slowed_by=("heat",)
    )

    found = merge_clocks([cool, Clocks(), hot])

    assert found.sm == (1200, 1940, 1980)
    assert (found.temperature, found.power, found.slowed_by) == (80, 700.0, ("heat",))


def test_nothing_is_known_of_no_samples() -> None:
    assert merge_clocks([]) == Clocks()


def test_machine_without_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    monitor = GpuMonitor("GPU-1")

    with monitor.watching() as clocks:
        pass

    assert clocks == []
    assert monitor.state(()).unread == "NVML reports: NVML Shared Library Not Found"
