"""The worker that runs a probe."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cuwheel.base.paths import script

sys.path.insert(0, str(script("lab/perf/runner/worker.py").parent))

from worker import ProbeWorker, _leak  # type: ignore[import-not-found]


@pytest.mark.parametrize(
    ("levels", "leak"),
    [
        ([0, 64, 128, 192, 256], 64),
        ([0, 64, 64, 64, 64], 0),  # taken once, and kept
        ([0, 0, 0, 64, 128], 0),
        ([0, 64, 128], 0),  # too few
        (list(range(0, 64 * 300, 64)), 64),
    ],
)
def test_memory_that_grows_in_both_halves_leaks(levels: list[int], leak: int) -> None:
    assert _leak([level << 20 for level in levels]) == leak << 20


@pytest.mark.parametrize("checks", [True, False])
def test_profiler_is_loaded_in_each_timed_process(
    monkeypatch: pytest.MonkeyPatch, *, checks: bool
) -> None:
    """The one without it was 5 to 10 % faster on the host: H200, 2026-11-30."""
    read: list[Any] = []

    def read_kernels(case: object) -> dict[str, Any]:
        read.append(case)
        return {}

    case = SimpleNamespace(
        inputs=lambda seed: (seed,), is_timed=True, call=None, host_calls=5, rival=None
    )
    worker = ProbeWorker.__new__(ProbeWorker)
    worker.cases = {"a": case}
    worker.framework = SimpleNamespace(reset_peak=lambda: None, peak=lambda: 0)
    monkeypatch.setattr(worker, "_forget", lambda: None)
    monkeypatch.setattr(worker, "_warm_up", lambda *_: {"seconds": 1.0})
    for name in ("_read_kernels", "_check"):
        monkeypatch.setattr(worker, name, read_kernels)

    worker.prepare("a", checks=checks)

    assert read == [case]


@pytest.mark.parametrize(("threads", "size"), [(1, 1), (8, 1), (8, 2)])
def test_warming_up_counts_busy_processors(
    monkeypatch: pytest.MonkeyPatch, threads: int, size: int
) -> None:
    now = [0.0]
    made: list[int] = []

    def call(*_: object) -> tuple[float, None]:
        now[0] += 0.0625
        made.append(1)
        return 0.0625, None

    worker = ProbeWorker.__new__(ProbeWorker)
    worker.seat = SimpleNamespace(size=size)
    monkeypatch.setattr(worker, "_call", call)
    clocks = {"perf_counter": lambda: now[0], "process_time": lambda: threads * now[0]}
    monkeypatch.setattr("worker.time", SimpleNamespace(**clocks))

    warm = worker._warm_up(call, 0)

    assert warm == {"seconds": 0.0625, "processors": threads}
    assert len(made) == 5
