"""What a build really computes: `python truth.py PROBE SITE`, with inputs that no gate has seen.

Prints a line of JSON for each case: its name, error, and error in units. Rows are drawn from all
combinations of a probe's grids, not from its pairs; each is compared with float64.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import runpy
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "cuwheel" / "lab" / "perf" / "runner"))

from frameworks import FRAMEWORKS  # noqa: E402
from gpu_driver import NvmlGpu  # noqa: E402

ROWS = 60  # of each grid
SEEDS = range(10, 12)


def drawn(probe: dict[str, Any]) -> list[Any]:
    """Return cases of random rows of all grids."""
    chance = random.Random(7)
    cases = []
    for axes, exists, make in probe["GRIDS"]:
        rows = (
            {name: chance.choice(values) for name, values in axes.items()} for _ in range(20 * ROWS)
        )
        cases += [make(row) for row in itertools.islice(filter(exists, rows), ROWS)]
    return cases


def main() -> None:
    """Print the errors of each case."""
    probe_file, site = sys.argv[1:]
    sys.path.insert(0, site)
    probe = runpy.run_path(probe_file, run_name="probe")
    framework = FRAMEWORKS[probe["FRAMEWORK"]](NvmlGpu())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for case in drawn(probe):
        errors = []
        for seed in SEEDS:
            arguments = case.inputs(seed)
            right = case.expected(*arguments)
            framework.poison(case.call(*arguments))
            value = case.call(*arguments)
            framework.wait(value)
            errors.append(framework.difference(value, right, is_special=case.is_special))
        worst = [max(getattr(error, name) for error in errors) for name in ("error", "units")]
        answers.write(json.dumps([case.name, *worst]) + "\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
