"""Earlier runs on the same GPU, and a hint where their times change for good."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np
import ruptures

from cuwheel.errors import UsageError
from cuwheel.perf.records import read_run
from cuwheel.system.files import write_atomically
from cuwheel.system.output.documents import as_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.perf.records import PerfRun

_FEWEST = 6  # runs, before a change can be told from scatter
_PENALTY = 3.0  # of ruptures' PELT: times the variance of neighbours and the logarithm of the count


def keep(run: PerfRun, folder: Path) -> None:
    """Add a run to a history."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = run.date.partition("+")[0].replace(":", "").replace("-", "")
    content = as_file(run)
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    write_atomically(folder / f"{stamp}-{digest}.json", content)


def read_history(folder: Path, run: PerfRun) -> tuple[PerfRun, ...]:
    """The sound runs of a history on the same GPU with the same driver, the oldest first."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            one = read_run(path)
        except UsageError:  # of another release of cuwheel
            continue
        if one.faults:
            continue
        if _subject(one) == _subject(run):
            found.append(one)
    return tuple(found)


def _subject(run: PerfRun) -> tuple[str, str, str]:
    return run.gpu_names, run.gpu.driver, run.recipe


def changes_of(runs: Sequence[PerfRun], case: str) -> tuple[str, ...]:
    """Where the time of a case changed its level, as sentences; a hint, never a judgement.

    Args:
        runs: the oldest first.
        case: its name.
    """
    found = [
        (run, one.timing.median)
        for run in runs
        for one in run.cases
        if one.name == case and one.timing
    ]
    if len(found) < _FEWEST:
        return ()
    logs = np.array([[math.log(seconds)] for _, seconds in found])
    scatter = float(np.median(np.diff(logs[:, 0]) ** 2)) or 1e-8
    penalty = _PENALTY * scatter * math.log(len(found))
    search = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(logs)
    ends = [0, *search.predict(pen=penalty)]
    return tuple(
        _sentence(found, *ends[index - 1 : index + 2]) for index in range(1, len(ends) - 1)
    )


def _sentence(found: Sequence[tuple[PerfRun, float]], start: int, change: int, end: int) -> str:
    before = float(np.median([seconds for _, seconds in found[start:change]]))
    after = float(np.median([seconds for _, seconds in found[change:end]]))
    return f"{after / before - 1:+.1%} from {found[change][0].date[:10]} on".replace("%", " %")
