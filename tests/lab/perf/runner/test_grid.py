"""Rows of a grid: every pair of values is in one of few."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import pytest

from cuwheel.lab.perf.runner import grid
from cuwheel.lab.perf.runner.grid import (
    case_of,
    cases_of,
    gradients_of,
    in_float64,
    name_of,
    pairwise,
    random_of,
    rounding_of,
    usual,
)
from tests.support.requirements import require

AXES: dict[str, tuple[Any, ...]] = {
    "kind": ("bf16", "fp16", "fp32"),
    "width": (2, 3, 4),
    "layout": ("rows", "columns"),
    "length": (1, 7, 1024, 2051),
    "bias": (True, False),
}


def pairs(row: dict[str, Any]) -> set[Any]:
    return set(itertools.combinations(row.items(), 2))


def test_every_pair_is_in_a_row() -> None:
    rows = pairwise(AXES)

    every = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(AXES, 2)
        for x, y in itertools.product(AXES[a], AXES[b])
    }
    assert set().union(*map(pairs, rows)) == every
    assert len(rows) < 20  # of 144 combinations
    assert rows == pairwise(AXES)


def test_rows_that_do_not_exist_are_left_out() -> None:
    def exists(row: dict[str, Any]) -> bool:
        return bool(row["layout"] == "rows" or row["width"] == 4)

    rows = pairwise(AXES, exists)

    assert all(map(exists, rows))
    assert any(row["layout"] == "columns" for row in rows)


def test_name_of_a_row() -> None:
    assert name_of({"kind": "bf16", "width": 4}) == "kind=bf16 width=4"


def test_case_of_a_row_is_only_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(grid.__file__).parent))
    row = {"size": (2, 3), "stream": "current"}

    case = case_of(
        row,
        lambda row, seed: (row["size"], seed),
        lambda row, *values: (row, *values),
        lambda _, *values: values,
        label="update",
        joined={"size": "x"},
        limit=0.5,
    )

    assert case.name == "update size=2x3 stream=current"
    assert (case.is_grid, case.is_timed, case.limit) == (True, False, 0.5)
    assert case.call(*case.inputs(7)) == (row, (2, 3), 7)
    assert case.expected(*case.inputs(7)) == ((2, 3), 7)


def test_cases_of_all_grids_follow_each_other_with_the_host_time_of_usual_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(grid.__file__).parent))
    few: dict[str, tuple[Any, ...]] = {"width": (1, 2), "kind": ("bf16",)}

    def make(row: dict[str, Any]) -> Any:
        return case_of(row, *3 * (print,), limit=1.0)

    cases = cases_of((AXES, lambda _: True, make), (few, lambda row: row["width"] > 1, make))

    usual_name = name_of(usual(AXES))
    assert [(case.name, case.host_calls) for case in cases] == [
        (f"{usual_name}, host time", 50),
        *((name_of(row), 0) for row in pairwise(AXES)),
        ("width=2 kind=bf16", 0),
    ]
    assert [case.is_timed for case in cases] == [True, *[False] * (len(cases) - 1)]
    assert usual(few, kind="fp16") == {"width": 1, "kind": "fp16"}


def test_gradients_are_of_what_can_have_one() -> None:
    require("torch", "that a grid's references and gradients are in float64")
    torch = importlib.import_module("torch")
    draw = random_of(0, "cpu")
    x, weight, number = draw(3, dtype="bfloat16"), draw(3, dtype="complex64"), torch.arange(3)

    values = in_float64((x, weight, None, number))
    gradients = gradients_of(lambda x, *_: 2 * x, values, torch.ones(3, dtype=torch.float64))

    assert [value.dtype for value in values if value is not None] == [
        *(torch.float64, torch.complex128, torch.int64)
    ]
    assert [one.tolist() for one in gradients] == [[2.0] * 3, [0.0] * 3]
    assert torch.equal(values[0], x.double())
    assert rounding_of("float32", "bfloat16") == 2**-8
