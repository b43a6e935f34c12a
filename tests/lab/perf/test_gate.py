"""Judgement of rounds: differences are found, equal wheels are never slower."""

from __future__ import annotations

import random

import pytest

from cuwheel.lab.perf.gate import interval, judge, judge_against_past, timing_of, worst
from tests.support.lab.perf_runs import make_timing

ROUNDS = 30
TOLERANCE = 0.01


def measured(seed: int, *factors: float, scatter: float = 0.001) -> list[list[float]]:
    """Return rounds with a common drift, each with scatter of its own."""
    chance = random.Random(seed)
    drift = [1 + 0.2 * chance.random() for _ in range(ROUNDS)]
    return [
        [4e-4 * factor * at * (1 + chance.gauss(0, scatter)) for at in drift] for factor in factors
    ]


@pytest.mark.parametrize("change", [1.02, 1.05, 1.2])
@pytest.mark.parametrize("seed", range(5))
def test_finds_a_slower_wheel(change: float, seed: int) -> None:
    old, new, again = measured(seed, 1, change, 1)

    result = judge(old, new, again, tolerance=TOLERANCE)

    assert result.answer == "SLOWER"
    assert result.ratio == pytest.approx(change, rel=0.002)
    assert result.low < result.ratio < result.high


@pytest.mark.parametrize("seed", range(20))
def test_the_same_is_no_false_alarm(seed: int) -> None:
    old, new, again = measured(seed, 1, 1, 1)

    assert judge(old, new, again, tolerance=TOLERANCE).answer == "SAME"


@pytest.mark.parametrize(
    ("factor", "scatter", "answer"),
    [
        (0.9, 0.001, "FASTER"),
        (1.02, 0.2, "UNDECIDED"),
        (1.01, 0.01, "UNDECIDED"),  # at the limit of the tolerance
    ],
)
def test_answers(factor: float, scatter: float, answer: str) -> None:
    old, new, again = measured(0, 1, factor, 1, scatter=scatter)

    assert judge(old, new, again, tolerance=TOLERANCE).answer == answer


def test_noise_limits_what_is_decided() -> None:
    old, new, again = measured(0, 1, 1.03, 1.05)

    result = judge(old, new, again, tolerance=TOLERANCE)

    assert result.answer == "UNDECIDED"
    assert result.noise == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize(
    ("ratio", "scale", "answer"),
    [(1.0, 1.0, "SAME"), (1.2, 1.0, "SLOWER"), (1.2, 1 / 1.2, "SAME"), (0.8, 1.0, "FASTER")],
)
def test_earlier_run_is_compared_by_the_cards_ceilings(
    ratio: float, scale: float, answer: str
) -> None:
    old, new = make_timing(1e-3), make_timing(ratio * 1e-3)

    assert judge_against_past(old, new, scale, 0.05).answer == answer


def test_interval_of_a_median() -> None:
    low, high = interval([1.0, 2.0, 3.0, 4.0, 100.0])

    assert 1 <= low < 3 < high <= 100


def test_interval_of_equal_values() -> None:
    assert interval([2.0, 2.0]) == (2.0, 2.0)


def test_timing_is_the_median_of_rounds() -> None:
    assert timing_of([3.0, 1.0, 2.0]).median == 2.0


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("SAME", "SLOWER", "UNDECIDED"), "SLOWER"),
        (("SAME", "UNDECIDED"), "UNDECIDED"),
        (("SAME", "FASTER"), "FASTER"),
        (("SAME",), "SAME"),
    ],
)
def test_worst_case_is_the_runs_answer(answers: tuple[str, ...], expected: str) -> None:
    assert worst(answers) == expected  # type: ignore[arg-type]
