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
    monkeypatch.setattr(worker, "_warm_up", lambda *_: 1.0)
    for name in ("_read_kernels", "_check"):
        monkeypatch.setattr(worker, name, read_kernels)

    worker.prepare("a", checks=checks)

    assert read == [case]
