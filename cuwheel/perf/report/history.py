"""Earlier runs on the same GPU, and a hint where their times change for good."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

from cuwheel.errors import UsageError
from cuwheel.perf.records import read_run
from cuwheel.system.files import write_atomically
from cuwheel.system.output.documents import as_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.perf.records import PerfRun

_FEWEST = 6  # runs, before a change can be told from scatter
_SHORTEST = 2  # runs that a level lasts
_PENALTY = 3.0  # of a change: times the variance of neighbours and the logarithm of the count


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
    logs = np.array([math.log(seconds) for _, seconds in found])
    scatter = float(np.median(np.diff(logs) ** 2)) or 1e-8
    penalty = _PENALTY * scatter * math.log(len(found))
    ends = [0, *_ends_of_levels(logs, penalty)]
    return tuple(
        _sentence(found, *ends[index - 1 : index + 2]) for index in range(1, len(ends) - 1)
    )


def _ends_of_levels(values: np.ndarray, penalty: float) -> list[int]:
    """Where levels of a series end, so that squared distances from their means cost least.

    Optimal partitioning: Jackson et al., "An algorithm for optimal partitioning of data on an
    interval" (IEEE Signal Processing Letters 12, 2005). Its time grows with the square of the
    length: 1,000 runs take a tenth of a second.

    Args:
        values: the series.
        penalty: what each further level costs.
    """
    count = len(values)
    centred = values - values.mean()  # differences of large sums would lose digits
    sums = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    costs = np.full(count + 1, np.inf)  # of the best levels of the first 0, 1, … values
    costs[0] = -penalty
    starts = np.zeros(count + 1, dtype=int)  # of the last of these levels
    for end in range(_SHORTEST, count + 1):
        begins = np.arange(end - _SHORTEST + 1)
        spread = squares[end] - squares[begins] - (sums[end] - sums[begins]) ** 2 / (end - begins)
        totals = costs[begins] + spread + penalty
        starts[end] = np.argmin(totals)
        costs[end] = totals[starts[end]]
    ends = [count]
    while starts[ends[0]]:
        ends.insert(0, int(starts[ends[0]]))
    return ends


def _sentence(found: Sequence[tuple[PerfRun, float]], start: int, change: int, end: int) -> str:
    before = float(np.median([seconds for _, seconds in found[start:change]]))
    after = float(np.median([seconds for _, seconds in found[change:end]]))
    return f"{after / before - 1:+.1%} from {found[change][0].date[:10]} on".replace("%", " %")
