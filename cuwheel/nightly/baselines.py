"""The last good figures of each target, by GPU: what the next night's are held against."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.system.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.facts.gpus import Gpu


def baseline_path(reports: Path, gpu: Gpu, target: str) -> Path:
    """Where a target's baseline is, `baselines/NVIDIA-H200-GPU-1a2b…/causal-conv1d-130.json`.

    Args:
        reports: the folder of all reports.
        gpu: the one that is measured; another card has baselines of its own.
        target: `causal-conv1d-130`.
    """
    name = re.sub(r"[^\w.]+", "-", f"{gpu.name} {gpu.uuid}").strip("-")
    return reports / "baselines" / name / f"{target}.json"


def keep_baseline(figures: Path, baseline: Path) -> bool:
    """Make a run's figures the next baseline.

    Args:
        figures: `perf.json` of a run that passed.
        baseline: of its target.

    Returns:
        Whether there are any.

    Raises:
        OSError: the baseline can't be written.
    """
    if not figures.is_file():
        return False
    write_atomically(baseline, figures.read_bytes())
    return True
