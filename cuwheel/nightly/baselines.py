"""The last good figures of each target, by GPU: what the next night's are held against."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cuwheel.system.files import write_atomically
from cuwheel.system.regular_files import read_json
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cuwheel.diagnose.facts.gpus import Gpu


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
    if not figures.is_file():
        return False
    old = read_json(baseline)
    if old and not _is_better(read_json(figures) or {}, old):
        return True
    write_atomically(baseline, read_bytes(figures))
    return True


def _is_better(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether a run was faster than its baseline, in all cases that the baseline has."""
    return new.get("answer") == "FASTER" and _timed(old) <= _timed(new)


def _timed(run: Mapping[str, Any]) -> set[str]:
    try:
        return {str(case["name"]) for case in run["cases"] if case["timing"]}
    except (KeyError, TypeError):  # not whole: a run that is has more
        return set()
