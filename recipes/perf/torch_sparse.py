"""torch-sparse's operators against PyTorch's own, in float64: forward and gradients.

The package is imported where torch-scatter is installed too: give that environment as --python.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from grid import case_of, cases_of, exactly, gradients_of, usual
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "torch_sparse"  # which loads the operators
FRAMEWORK = "torch"
UNTOUCHED = (
    "random_walk, whose results are random; other samplers, partitions: they are for the CPU",
    "what its Python code makes of torch-scatter's and PyTorch's operations",
    "float16, bfloat16; more than 2^31 elements",
)
DEVICE = "cuda"

LIMITS = {"float32": 1e-5, "float64": 1e-12}  # sums of up to 3000 products
NAMES = {"sum": "sum", "mean": "mean", "min": "amin", "max": "amax"}
LARGE: dict[str, Any] = {"rows": 1 << 17, "entries": 1 << 21, "columns": 64}

Row = dict[str, Any]
Values = tuple[Any, ...]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "call": ("spmm_sum", "spmm_mean", "spmm_min", "spmm_max", "ind2ptr", "ptr2ind"),
    "has_value": (True, False),
    "dtype": ("float32", "float64"),
    "rows": (300, 1, 20000),
    "entries": (3000, 1, 33),
    "columns": (32, 1, 7, 100),
    "stream": ("current", "second"),
}


def exists(row: Row) -> bool:
    """Return False for gradients of what has integers."""
    return row["what"] == "forward" or row["call"].startswith("spmm")


def inputs(row: Row, seed: int) -> Values:
    """Return entries' rows and columns, their values or None, a matrix, gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    kind, inner = getattr(torch, row["dtype"]), 257

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=DEVICE, generator=draw, dtype=kind)

    size = (row["entries"],)
    rows = torch.randint(row["rows"], size, device=DEVICE, generator=draw).sort()[0]
    columns = torch.randint(inner, size, device=DEVICE, generator=draw)
    values = normal(*size) if row["has_value"] else None
    return rows, columns, values, normal(inner, row["columns"]), normal(row["rows"], row["columns"])


def package(row: Row, rows: torch.Tensor, columns: torch.Tensor, values: Any, matrix: Any) -> Any:
    """Return the package's result."""
    operators = torch.ops.torch_sparse
    function = getattr(operators, row["call"])
    starts = operators.ind2ptr(rows, row["rows"])
    if row["call"] in ("spmm_min", "spmm_max"):
        return function(starts, columns, values, matrix)[0]
    if row["call"].startswith("spmm"):
        order = columns.argsort(stable=True)
        of_columns = operators.ind2ptr(columns[order], len(matrix))
        counts = (starts.diff(),) if row["call"] == "spmm_mean" else ()
        return function(rows, starts, columns, values, *counts, of_columns, order, matrix)
    return starts if row["call"] == "ind2ptr" else function(starts, len(rows))


def exact(row: Row, rows: torch.Tensor, columns: torch.Tensor, values: Any, matrix: Any) -> Any:
    """Return the same by PyTorch's operations."""
    if row["call"] == "ptr2ind":
        return rows
    if row["call"] == "ind2ptr":
        return torch.nn.functional.pad(rows.bincount(minlength=row["rows"]).cumsum(0), (1, 0))
    products = matrix[columns] if values is None else values[:, None] * matrix[columns]
    empty = products.new_zeros(row["rows"], products.shape[1])
    reduce = NAMES[row["call"].partition("_")[2]]
    if reduce == "mean":
        sums = empty.index_add(0, rows, products)
        return sums / rows.bincount(minlength=row["rows"]).clip(min=1)[:, None]
    places = rows[:, None].expand_as(products)
    return empty.scatter_reduce(0, places, products, reduce, include_self=False)


def outputs(function: Callable[..., Any], row: Row, *arguments: Any) -> Any:
    """Return the output, or the gradients of values and matrix."""
    *values, ahead = arguments
    if row["what"] == "forward":
        return function(row, *values)
    return gradients_of(functools.partial(function, row), values, ahead)


CALL = functools.partial(outputs, package)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(row, inputs, CALL, EXPECTED, limit=LIMITS[row["dtype"]], memory=1 << 30)


def timed_case(what: str, call: str) -> Case:
    """Return a case of many entries."""
    row = usual(AXES, **LARGE, what=what, call=call)
    return Case(
        name=f"{what} {call} fp32 {row['entries']} entries, {row['columns']} columns",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=LIMITS["float32"],
        rival=functools.partial(outputs, exact, row),
        rival_name="torch scatter_reduce",
        memory=8 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", "spmm_sum"),
        timed_case("gradient", "spmm_sum"),
        timed_case("forward", "spmm_max"),
        *cases_of(*GRIDS),
    ]
