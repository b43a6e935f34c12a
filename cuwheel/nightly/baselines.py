"""The last good figures of each target, by GPU: what the next night's are held against."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cuwheel.system.files import write_atomically

if TYPE_CHECKING:
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
    if baseline.is_file() and not _is_better(figures, baseline):
        return True
    write_atomically(baseline, figures.read_bytes())
    return True


def _is_better(figures: Path, baseline: Path) -> bool:
    """Whether a run was faster than its baseline, in all cases that the baseline has."""
    new, old = (json.loads(path.read_text(encoding="utf-8")) for path in (figures, baseline))
    return new.get("answer") == "FASTER" and _timed(old) <= _timed(new)


def _timed(run: dict[str, Any]) -> set[str]:
    return {case["name"] for case in run["cases"] if case["timing"]}
