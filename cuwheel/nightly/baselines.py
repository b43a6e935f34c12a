"""The last good figures of each target, by GPU: what the next night's are held against."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.errors import UsageError
from cuwheel.perf.records import read_run
from cuwheel.system.files import write_atomically
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.facts.gpus import Gpu
    from cuwheel.perf.records import PerfRun


def baseline_path(reports: Path, gpu: Gpu, driver: str, target: str) -> Path:
    """Where a target's baseline is, `baselines/NVIDIA-H200-GPU-1a2b…-580/causal-conv1d-130.json`.

    Args:
        reports: the folder of all reports.
        gpu: the one that is measured; another card has baselines of its own.
        driver: its release; so has another driver.
        target: `causal-conv1d-130`.
    """
    name = re.sub(r"[^\w.]+", "-", f"{gpu.name} {gpu.uuid} {driver}").strip("-")
    return reports / "baselines" / name / f"{target}.json"


def read_baseline(baseline: Path) -> PerfRun | None:
    """A target's baseline; None: there is none that this cuwheel can read."""
    try:
        return read_run(baseline)
    except UsageError:  # none yet, of another release of cuwheel, or cut off
        return None


def keep_baseline(figures: Path, baseline: Path) -> bool:
    """Make a run's figures the next baseline, where there is none or they are better.

    Figures that are as good keep the old ones: a wheel that gets a little slower each night would
    never be slower than the night before.

    Args:
        figures: `perf.json` of a run that passed.
        baseline: of its target.

    Returns:
        Whether there are figures.

    Raises:
        OSError: the baseline can't be written.
    """
    new, old = read_baseline(figures), read_baseline(baseline)
    if new is None:
        return False
    if old is None or _is_better(new, old):
        write_atomically(baseline, read_bytes(figures))
    return True


def _is_better(new: PerfRun, old: PerfRun) -> bool:
    """Whether a run was faster than its baseline, in all cases that the baseline has."""
    return new.answer == "FASTER" and _timed(old) <= _timed(new)


def _timed(run: PerfRun) -> set[str]:
    return {case.name for case in run.cases if case.timing}
