"""torch-scatter against PyTorch's own reductions: forward and gradients, by float64."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch_scatter
from grid import case_of, cases_of
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "torch_scatter"
FRAMEWORK = "torch"
UNTOUCHED = (
    "scatter_sum and scatter_mean, which call PyTorch's kernels, and what is made of them",
    "out=, dim_size=, empty inputs, NaN",
    "gradients of minimum and maximum with equal values: any of them may get it",
    "more than 2^31 elements",
)
DEVICE = "cuda"

ROWS, COLUMNS, LENGTH = 1 << 22, 32, 16  # of the timed cases: 512 MiB in float32
SINGLE = 1e-5  # relative: sums and products of up to 3000 values in float32
NAMES = {"sum": "sum", "mean": "mean", "min": "amin", "max": "amax", "mul": "prod"}

Row = dict[str, Any]
Values = tuple[torch.Tensor, ...]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "call": (
        *(f"segment_csr {reduce}" for reduce in ("sum", "mean", "min", "max")),
        *(f"segment_coo {reduce}" for reduce in ("sum", "mean", "min", "max")),
        *(f"scatter {reduce}" for reduce in ("min", "max", "mul")),
        "gather_csr",
        "gather_coo",
    ),
    "dtype": ("float32", "float16", "bfloat16", "float64", "int64"),
    "columns": (32, 0, 1, 7, 100),  # 0: without the axis
    "batch": (1, 3),
    "segments": ("short", "all in one", "one row each", "mostly empty"),
    "layout": ("rows", "transposed"),
    "stream": ("current", "second"),
}
COUNTS = {"short": 300, "all in one": 1, "one row each": 3000, "mostly empty": 20000}
LARGE: Row = {"dtype": "float32", "columns": COLUMNS, "batch": 1, "layout": "rows"}


def reduction(row: Row) -> str:
    """Return what a call does with the values of a segment: `sum`; of a gather, empty."""
    return str(row["call"].partition(" ")[2])


def adds_up(row: Row) -> bool:
    """Return True where more than one rounding is between the input and an output."""
    if row["what"] == "gradient":
        return reduction(row) in ("", "mul")
    return reduction(row) in ("sum", "mean", "mul")


def exists(row: Row) -> bool:
    """Sums of 16 bits round at each step; integers have no gradient, fractions or products."""
    kind = getattr(torch, row["dtype"])
    if not kind.is_floating_point:
        return row["what"] == "forward" and reduction(row) not in ("mean", "mul")
    if kind.itemsize > 2:
        return True
    are_equal_values = row["what"] == "gradient" and reduction(row) in ("min", "max")
    is_rounded = adds_up(row) or reduction(row) == "mean"
    return not are_equal_values and not (is_rounded and row["segments"] == "all in one")


def place_rows(rows: int, count: int, *, is_each: bool, draw: torch.Generator) -> torch.Tensor:
    """Return the segment of each row, in ascending order."""
    if is_each:
        return torch.arange(rows, device=DEVICE)
    return torch.randint(count, (rows,), device=DEVICE, generator=draw).sort()[0]


def inputs(row: Row, seed: int, rows: int = 3000, count: int = 0) -> Values:
    """Return values, the segment of each row, where the segments begin, gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    count = count or COUNTS[row["segments"]]
    index = place_rows(rows, count, is_each=count == rows, draw=draw)
    if row["call"].startswith("scatter "):
        index = index[torch.randperm(rows, device=DEVICE, generator=draw)]
    starts = torch.nn.functional.pad(index.bincount(minlength=count).cumsum(0), (1, 0))
    columns = (row["columns"],) if row["columns"] else ()
    of_rows, of_segments = ((row["batch"], size, *columns) for size in (rows, count))
    from_shape, to_shape = (of_rows, of_segments) if reduction(row) else (of_segments, of_rows)
    values = values_for(row, from_shape, draw)
    ahead = torch.rand(to_shape, device=DEVICE, generator=draw) + 0.5
    return values, index, starts, ahead.to(values.dtype)


def values_for(row: Row, shape: tuple[int, ...], draw: torch.Generator) -> torch.Tensor:
    """Return values that don't cancel out, or differ from each other, or have a small product."""
    even = torch.rand(shape, device=DEVICE, generator=draw)
    values = even + 0.5
    if reduction(row) == "mul":
        values = 1 + 0.2 * (even - 0.5)
    if reduction(row) in ("min", "max") or row["dtype"] == "int64":
        order = torch.randperm(even.numel(), device=DEVICE, generator=draw)
        # Not 0: PyTorch would share its gradient with the zeros before the reduction.
        values = (order - even.numel() // 2 + 0.5).view(shape)
        values = values if row["dtype"] in ("int64", "float64", "float32") else values / 1e3
    values = values.to(getattr(torch, row["dtype"]))
    if row["layout"] == "transposed":
        return values.transpose(1, -1).contiguous().transpose(1, -1)
    return values


def package(row: Row, values: torch.Tensor, index: torch.Tensor, starts: torch.Tensor) -> Any:
    """Return the package's result."""
    name, _, reduce = row["call"].partition(" ")
    function = getattr(torch_scatter, name)
    if name == "scatter":
        return function(values, index, dim=1, dim_size=len(starts) - 1, reduce=reduce)
    places = (starts if name.endswith("csr") else index).expand(len(values), -1)
    if not reduce:
        return function(values, places)
    if name == "segment_coo":
        return function(values, places, dim_size=len(starts) - 1, reduce=reduce)
    return function(values, places, reduce=reduce)


def exact(row: Row, values: torch.Tensor, index: torch.Tensor, starts: torch.Tensor) -> Any:
    """Return the same by PyTorch's `scatter_reduce`, or by indexing."""
    if not reduction(row):
        return values[:, index]
    shape = (len(values), len(starts) - 1, *values.shape[2:])
    empty = values.new_ones(shape) if reduction(row) == "mul" else values.new_zeros(shape)
    places = index.view(1, -1, *(1,) * (values.dim() - 2)).expand_as(values)
    return empty.scatter_reduce(1, places, values, NAMES[reduction(row)], include_self=False)


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the output, or the gradient of the values."""
    values, index, starts, ahead = arguments
    if row["what"] == "forward":
        return function(row, values, index, starts)
    leaf = values.detach().requires_grad_()
    return torch.autograd.grad(function(row, leaf, index, starts), leaf, ahead)


CALL = functools.partial(outputs, package)


def expected(row: Row, *arguments: torch.Tensor) -> Any:
    """Return the result in float64."""
    values, index, starts, ahead = arguments
    return outputs(exact, row, values.double(), index, starts, ahead.double())


def same_bits(row: Row) -> bool:
    """Return False for what is added or multiplied by atomics."""
    is_sorted = row["call"].startswith(("segment_csr", "gather_csr"))
    return is_sorted or (not adds_up(row) and reduction(row) != "mul")


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    kind = getattr(torch, row["dtype"])
    eps = torch.finfo(kind).eps if kind.is_floating_point else 0.0
    is_rounded = adds_up(row) or reduction(row) == "mean"
    wide = SINGLE if kind == torch.float32 else 1e-12
    return case_of(
        row,
        inputs,
        CALL,
        expected,
        limit=(4 * eps if kind.itemsize == 2 else wide) if is_rounded else 1e-12,
        same_bits=same_bits(row),
        memory=1 << 30,
    )


def timed_case(what: str, call: str, moved: int) -> Case:
    """Return a case of memory's size, `moved` times of which are read or written."""
    row: Row = {**LARGE, "what": what, "call": call}
    count = ROWS // LENGTH
    return Case(
        name=f"{what} {call} fp32 {ROWS}x{COLUMNS}",
        inputs=lambda seed: inputs(row, seed, ROWS, count),
        call=functools.partial(CALL, row),
        expected=functools.partial(expected, row),
        limit=SINGLE,
        bytes=4 * COLUMNS * (moved * ROWS + count),
        rival=functools.partial(outputs, exact, row),
        rival_name="torch scatter_reduce",
        memory=12 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", "segment_csr sum", 1),
        timed_case("gradient", "segment_csr sum", 2),
        timed_case("forward", "segment_coo sum", 1),
        timed_case("forward", "scatter max", 3),  # and once more for where it was found
        *cases_of(*GRIDS),
    ]
