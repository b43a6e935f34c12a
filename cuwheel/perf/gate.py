"""Whether a wheel is slower than another: from times that were measured in turns.

Each round gives the median time of the old wheel, of the new one, and of the old one in a second
process. A clock that changes changes all three, so the ratios within a round are what is judged.
How far the old wheel is from itself says what such a ratio is worth on this machine: a difference
counts only beyond that, and equality is only said where that is small.
"""

from __future__ import annotations

import math
import statistics
import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import bootstrap

from cuwheel.perf.records import Comparison, Timing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cuwheel.perf.records import Answer

# Share of the time that counts as the same, by what measured it. An H100 was within 0.1 % of itself
# in sixteen runs by device events; the host's clock has the host's own business in it.
TOLERANCES = {"device events": 0.01, "host clock": 0.03}
BETWEEN_RUNS = 0.05  # against an earlier run: clocks, heat and other cards differ
CONFIDENCE = 0.99  # of the intervals: with twenty cases one in five runs would be wrong at 0.95
_RESAMPLES = 2000
_SEED = 0  # the same rounds give the same answer
_SEVERITY: tuple[Answer, ...] = ("FASTER", "SAME", "UNDECIDED", "SLOWER")


def judge(
    old: Sequence[float],
    new: Sequence[float],
    again: Sequence[float],
    *,
    tolerance: float,
    repeats: int = 1,
) -> Comparison:
    """Compare times that were measured in turns.

    Args:
        old: seconds of the old wheel, the median of each round.
        new: those of the new one in the same rounds.
        again: those of the old one in a second process.
        tolerance: a share of the time; what is below counts as the same.
        repeats: how often everything was measured; it is only passed on.
    """
    changes = [math.log(b / a) for a, b in zip(old, new, strict=True)]
    selves = [math.log(b / a) for a, b in zip(old, again, strict=True)]
    # Of the two processes of the old wheel none is the right one.
    middles = [(b - a / 2) for a, b in zip(selves, changes, strict=True)]
    low, high = interval(middles)
    noise = max(map(abs, interval(selves)))
    return Comparison(
        answer=_answer(low, high, noise, math.log1p(tolerance)),
        ratio=math.exp(statistics.median(middles)),
        low=math.exp(low),
        high=math.exp(high),
        noise=math.expm1(noise),
        repeats=repeats,
    )


def _answer(low: float, high: float, noise: float, tolerance: float) -> Answer:
    least = max(noise, tolerance)
    if low > least:
        return "SLOWER"
    if high < -least:
        return "FASTER"
    if noise <= tolerance and -tolerance <= low and high <= tolerance:
        return "SAME"
    return "UNDECIDED"


def judge_against_past(old: Timing, new: Timing, scale: float, tolerance: float) -> Comparison:
    """Compare with times of an earlier run, which can't be measured in turns.

    Args:
        old: of the earlier run.
        new: of this one.
        scale: how much faster the card is now than then, by its ceilings.
        tolerance: a share of the time; between runs it has to be larger.
    """
    ratio = new.median * scale / old.median
    spread = max(old.high / old.low, new.high / new.low)
    low, high = math.log(ratio / spread), math.log(ratio * spread)
    return Comparison(
        answer=_answer(low, high, math.log(spread), math.log1p(tolerance)),
        ratio=ratio,
        low=math.exp(low),
        high=math.exp(high),
        noise=spread - 1,
    )


def timing_of(rounds: Sequence[float]) -> Timing:
    """Median of the rounds, with its confidence interval.

    Args:
        rounds: seconds of a call, the median of each round.
    """
    low, high = interval(rounds)
    return Timing(median=statistics.median(rounds), low=low, high=high, rounds=tuple(rounds))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Confidence interval of a median, by bootstrap (scipy's percentile method)."""
    if len(set(values)) == 1:
        return values[0], values[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounds that hardly differ
        found = bootstrap(
            (np.asarray(values),),
            np.median,
            confidence_level=CONFIDENCE,
            n_resamples=_RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(_SEED),
        )
    bounds = found.confidence_interval
    return float(bounds.low), float(bounds.high)


def worst(answers: Iterable[Answer]) -> Answer:
    """The answer for a run: SLOWER where one case is, else UNDECIDED where one is.

    FASTER only where all that differs is faster.
    """
    found = set(answers)
    for answer in reversed(_SEVERITY[2:]):
        if answer in found:
            return answer
    return "FASTER" if "FASTER" in found else "SAME"
