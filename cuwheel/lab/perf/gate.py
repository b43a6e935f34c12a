"""The judgement if a wheel is slower than another, from times that were measured alternately.

Each round gives the time of a call of the old wheel, of the new one, and of the old one in a second
process. A changing clock affects all three, so the ratios within a round are judged. The ratio of
the old wheel to itself is the noise of this machine: a difference counts only beyond it, and wheels
are the same only where it is small.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterable, Sequence

from cuwheel.lab.perf.records import Answer, Comparison, Timing

# Share of the time that counts as the same, by what measured it. An H100 was within 0.1 % of itself
# in sixteen runs by device events; the host's clock includes the host's other work.
HOST_CLOCK = "host clock"
TOLERANCES = {"device events": 0.01, HOST_CLOCK: 0.03}
HOST_CALLS = 0.10  # of calls that follow each other: other programs use the host too
BETWEEN_RUNS = 0.05  # against an earlier run: clocks, heat and other cards differ
CONFIDENCE = 0.99  # of the intervals: with twenty cases one in five runs would be wrong at 0.95
_RESAMPLES = 2000
_SEED = 0  # the same rounds give the same answer
_SEVERITY: tuple[Answer, ...] = ("SLOWER", "UNDECIDED", "FASTER")


def judge(
    old: Sequence[float],
    new: Sequence[float],
    again: Sequence[float],
    *,
    tolerance: float,
    repeats: int = 1,
) -> Comparison:
    """Compare times that were measured alternately.

    Args:
        old: seconds, the typical call of each round; `again`: of the old wheel in a second process.
        tolerance: a share of the time; smaller differences count as the same.
        repeats: how often everything was measured, for the record.
    """
    changes = [math.log(b / a) for a, b in zip(old, new, strict=True)]
    selves = [math.log(b / a) for a, b in zip(old, again, strict=True)]
    # Neither process of the old wheel is the right one.
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
        tolerance=tolerance,
    )


def judge_least(
    old: Sequence[float],
    new: Sequence[float],
    again: Sequence[float],
    *,
    tolerance: float,
) -> Comparison:
    """Compare times by the host's clock, of which the least of several processes counts.

    A process as a whole can be slower on the host than another of the same wheel.

    Args:
        old: seconds, the least of each process; `again`: of the old wheel in second processes.
        tolerance: a share of the time; smaller differences count as the same.
    """
    ratio, limit = _least_ratio(old, new, again), math.log1p(tolerance)
    fewer = [
        _least_ratio(*([*times[:left], *times[left + 1 :]] for times in (old, new, again)))
        for left in range(len(old) if len(old) > 1 else 0)
    ]
    low, high = min([ratio, *fewer]), max([ratio, *fewer])
    noise = abs(math.log(min(again) / min(old)))
    is_same = noise <= limit and abs(ratio) <= limit  # the least can't be too small by chance
    return Comparison(
        answer="SAME" if is_same else _answer(low, high, noise, limit),
        ratio=math.exp(ratio),
        low=math.exp(low),
        high=math.exp(high),
        noise=math.expm1(noise),
        repeats=len(old),
        tolerance=tolerance,
    )


def _least_ratio(old: Sequence[float], new: Sequence[float], again: Sequence[float]) -> float:
    """Return the logarithm of the least new time over the middle of both least old ones."""
    return math.log(min(new)) - (math.log(min(old)) + math.log(min(again))) / 2


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
    """Compare with times of an earlier run, which needs a larger tolerance (a share)."""
    ratio = new.median * scale / old.median
    spread = max(old.high / old.low, new.high / new.low)
    low, high = math.log(ratio / spread), math.log(ratio * spread)
    return Comparison(
        answer=_answer(low, high, math.log(spread), math.log1p(tolerance)),
        ratio=ratio,
        low=math.exp(low),
        high=math.exp(high),
        noise=spread - 1,
        tolerance=tolerance,
    )


def timing_of(rounds: Sequence[float]) -> Timing:
    """Return the median of the rounds (seconds), with its confidence interval."""
    low, high = interval(rounds)
    return Timing(median=statistics.median(rounds), low=low, high=high, rounds=tuple(rounds))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the confidence interval of a median, by bootstrap (scipy's percentile method)."""
    if len(set(values)) == 1:
        return values[0], values[0]
    import numpy as np  # noqa: PLC0415 - with scipy it takes a second, and few commands judge times
    from scipy.stats import bootstrap  # noqa: PLC0415 - likewise

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounds that hardly differ
        result = bootstrap(
            (np.asarray(values),),
            np.median,
            confidence_level=CONFIDENCE,
            n_resamples=_RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(_SEED),
        )
    bounds = result.confidence_interval
    return float(bounds.low), float(bounds.high)


def worst(answers: Iterable[Answer]) -> Answer:
    """Return a run's answer: SLOWER or UNDECIDED if a case is, else FASTER if one is."""
    cases = set(answers)
    return next((answer for answer in _SEVERITY if answer in cases), "SAME")
