"""Comparison of outputs with numpy, and with PyTorch where it is installed."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

from cuwheel.lab.perf.runner.differences import (
    BLOCK,
    OutputDifference,
    bias_of,
    compare,
    larger,
    leaves,
    numpy_sums,
    pairs,
    torch_sums,
    worst,
)
from cuwheel.lab.perf.runner.perf_case import BLOCK_FACTOR, Case
from tests.support.requirements import require

COUNT = 1 << 22
LIMIT = 5e-3  # of the probes of bf16
KINDS = ("complex64", "int8", "int64", "bool", "float16")


@pytest.fixture(scope="module")
def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(COUNT)


def compared(actual: Any, expected: Any) -> OutputDifference:
    return compare(actual, expected, numpy_sums)


def rounded_to_bf16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The nearest number with eight bits; halves up."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).view(np.float32)


def test_rounding_stays_below_both_limits(values: np.ndarray[Any, Any]) -> None:
    result = compared(rounded_to_bf16(values), values)

    assert result.error == pytest.approx(1.66e-3, rel=0.05)
    assert result.error < result.block_error < 1.3 * result.error


@pytest.mark.parametrize("place", [0, 123_456, COUNT - 1])
def test_one_wrong_element_of_millions_is_found(values: np.ndarray[Any, Any], place: int) -> None:
    actual = rounded_to_bf16(values)
    actual[place] = values[place] + 1.0

    result = compared(actual, values)

    start = place // BLOCK * BLOCK
    assert result.error < LIMIT
    assert result.block_error > BLOCK_FACTOR * LIMIT
    assert result.block == f"elements {start} to {start + BLOCK - 1}"


def test_one_wrong_tile_is_found(values: np.ndarray[Any, Any]) -> None:
    expected = values.reshape(2048, 2048)
    actual = expected.copy()
    actual[64:72, 512:520] = 0

    result = compared(actual, expected)

    assert result.error < LIMIT
    assert result.block_error > 10 * LIMIT


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_no_number_is_found(wrong: float) -> None:
    expected = np.ones(1000)
    actual = expected.copy()
    actual[700] = wrong

    result = compared(actual, expected)

    assert not math.isfinite(result.error)
    assert not math.isfinite(result.block_error)
    assert result.block == "elements 512 to 767"


def test_small_error_of_all_elements_is_found_below_rounding(
    values: np.ndarray[Any, Any],
) -> None:
    good = compared(rounded_to_bf16(values).astype(np.float16), values.astype(np.float64))
    shifted = rounded_to_bf16(values * 1.001)

    assert good.units < 8
    assert numpy_bias(rounded_to_bf16(values), values) < 1
    assert numpy_bias(shifted, values) > 1.5


def numpy_bias(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """Return the bias that bf16 would have, a format that numpy lacks."""
    sums = numpy_sums(actual, expected)._replace(eps=2**-7)
    return bias_of(sums, len(expected))


@pytest.mark.parametrize(("error", "units"), [(0.0, 0.0), (1e-3, 8389), (1e-6, 8.0)])
def test_error_of_one_element_is_in_units_of_its_format(error: float, units: float) -> None:
    expected = np.ones(1000)
    actual = expected.astype(np.float32)
    actual[700] += error

    assert compared(actual, expected).units == pytest.approx(units, rel=0.01)


@pytest.mark.parametrize(
    ("actual", "is_right"),
    [
        ([1, math.nan, math.inf, -math.inf], True),
        ([1, math.nan, math.inf, math.inf], False),
        ([1, math.nan, 1, -math.inf], False),
        ([1, 1, math.inf, -math.inf], False),
        ([math.nan, math.nan, math.inf, -math.inf], False),
    ],
)
def test_special_values_are_expected_where_they_are(actual: list[float], is_right: bool) -> None:  # noqa: FBT001 - a parameter
    expected = np.array([1, math.nan, math.inf, -math.inf])

    result = compare(np.array(actual), expected, numpy_sums, is_special=True)

    assert (result.error == 0) == is_right


def test_nan_that_is_expected_is_no_result_either() -> None:
    assert math.isnan(compared(np.ones(3), np.array([1, math.nan, 1])).error)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind(kind: str) -> None:
    expected = np.ones(300).astype(kind)
    actual = expected.copy()
    actual[299] = 0

    result = compared(actual, expected)

    assert result.error == pytest.approx(math.sqrt(1 / 300))
    assert result.block_error == pytest.approx(1 / 16)
    assert result.block == "elements 256 to 299"


def test_imaginary_part_that_is_not_expected() -> None:
    assert compared(np.array([1 + 1j]), np.array([1.0])).error == pytest.approx(1)


def test_error_of_zeros_is_the_difference() -> None:
    expected = np.zeros(600)
    actual = expected.copy()
    actual[300] = 0.5

    assert compared(actual, expected)[:3] == (0.5, 0.5, "elements 256 to 511")


def test_zeros_among_numbers_are_measured_by_these() -> None:
    expected = np.repeat([1.0, 0.0], BLOCK)
    actual = expected + 1e-3

    result = compared(actual, expected)

    assert result.block_error == pytest.approx(1e-3 * math.sqrt(2))


def test_worst_of_several_outputs_is_named() -> None:
    ones = np.ones(2 * BLOCK)

    result = compared((ones, 2 * ones), (ones, ones))

    assert result[:3] == (1.0, 1.0, "elements 0 to 255 of output 2")


def test_nothing_is_as_expected() -> None:
    assert compared(np.ones(0), np.ones(0)) == (0.0, 0.0, "", 0.0, 0.0)


def test_number_is_an_output() -> None:
    assert compared(2.0, 1.0)[:3] == (1.0, 1.0, "elements 0 to 0")


def test_pytorch_gives_what_numpy_gives(values: np.ndarray[Any, Any]) -> None:
    require("torch", "that outputs of PyTorch are compared as numpy's are")
    from_numpy = importlib.import_module("torch").from_numpy
    large, small = values.reshape(4, -1), np.arange(1.0, 700.0)
    examples = [
        (rounded_to_bf16(values), values),
        (large.T, large.T + 1e-3),
        (np.where(small == 300, 0, small), small),
        (np.where(small == 300, math.inf, small), small),
        *((small.astype(kind), np.sqrt(small).astype(kind)) for kind in KINDS),
        (small + 1j, small),
        (small, np.zeros_like(small)),
        ((small, small), (small, small + 1)),
        (np.ones(0), np.ones(0)),
        (np.ones(()), np.zeros(())),
    ]

    for example in examples:
        actual, expected = ([from_numpy(array) for array in leaves(output)] for output in example)
        expected_result = compared(*example)
        result = compare(actual, expected, torch_sums)

        assert result.block == expected_result.block
        for number in (0, 1, 3, 4):
            assert result[number] == pytest.approx(expected_result[number], nan_ok=True)


def test_arrays_of_an_output() -> None:
    assert leaves([1, (2, None), {"a": 3}]) == [1, 2, 3]


def test_another_number_of_arrays() -> None:
    with pytest.raises(ValueError, match="it returns 1 arrays, and 2 were expected"):
        pairs(np.zeros(1), (np.zeros(1), np.zeros(1)))


def test_larger_error_counts() -> None:
    assert larger(1.0, 2.0) == larger(2.0, 1.0) == 2.0


def test_nan_is_larger_than_all() -> None:
    nothing = OutputDifference(math.nan, math.nan, "there")

    result = worst(
        [OutputDifference(1.0, 1.0, "here"), nothing, OutputDifference(2.0, 2.0, "last")]
    )

    assert math.isnan(result.error)
    assert math.isnan(result.block_error)
    assert result.block == "there"


def test_other_factor_needs_a_reason() -> None:
    def call(x: object) -> object:
        return x

    with pytest.raises(ValueError, match="forward: block_factor without a block_reason"):
        Case(
            name="forward",
            inputs=lambda _: (),
            call=call,
            expected=call,
            limit=LIMIT,
            block_factor=9,
        )
