"""Outputs compared as a probe's interpreter does it, with numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cuwheel.standalone.perf.frameworks import larger, leaves, pairs, ratio


def test_arrays_of_an_output() -> None:
    assert leaves([1, (2, None), {"a": 3}]) == [1, 2, 3]


def test_another_number_of_arrays() -> None:
    with pytest.raises(ValueError, match="it gives 1 arrays, and 2 were expected"):
        pairs(np.zeros(1), (np.zeros(1), np.zeros(1)))


def test_error_of_zeros_is_the_difference() -> None:
    assert ratio(0.5, 0.0) == 0.5


@pytest.mark.parametrize(("worst", "found", "expected"), [(1.0, 2.0, 2.0), (2.0, 1.0, 2.0)])
def test_larger_error_counts(worst: float, found: float, expected: float) -> None:
    assert larger(worst, found) == expected


def test_nan_is_larger_than_all() -> None:
    assert math.isnan(larger(1.0, math.nan))
