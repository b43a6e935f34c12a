"""torch-discounted-cumsum against products with powers in float64: forward and gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch_discounted_cumsum
from grid import case_of, cases_of, exactly, usual
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "torch_discounted_cumsum"
FRAMEWORK = "torch"
UNTOUCHED = (
    # Its kernels are launched on the default stream, which PyTorch's others don't wait for.
    "another stream than the default, which is wrong upstream",
    "gradients of one factor for all rows, whose shape is wrong upstream",
    "more than 65535 rows, or 2^31 elements",
    "NaN, infinities, no rows, no columns",
)
DEVICE = "cuda"

BLOCK = 256  # columns that the reference multiplies at once
LARGE = (1024, 1 << 16)  # rows, columns: 256 MiB in float32
LIMITS = {"float32": 1e-5, "float64": 1e-12}  # a sum of up to 4097 products with powers

Row = dict[str, Any]
Values = tuple[torch.Tensor, ...]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "to": ("left", "right"),
    "dtype": ("float32", "float64"),
    "rows": (65, 1, 3),
    "columns": (1000, 1, 2, 64, 65, 4097),
    "factor": ("of each row", "0.99", "1.0", "-0.5"),
    "layout": ("rows", "transposed"),
}


def inputs(row: Row, seed: int) -> Values:
    """Return values, the factor or factors, and gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    kind, shape = getattr(torch, row["dtype"]), (row["rows"], row["columns"])
    values = torch.randn(shape, device=DEVICE, generator=draw, dtype=kind)
    if row["layout"] == "transposed":
        values = values.t().contiguous().t()
    if row["factor"] == "of each row":
        factor = 0.8 + 0.2 * torch.rand(row["rows"], device=DEVICE, generator=draw, dtype=kind)
    else:
        factor = torch.tensor([float(row["factor"])], device=DEVICE, dtype=kind)
    return values, factor, torch.randn(shape, device=DEVICE, generator=draw, dtype=kind)


def package(row: Row, values: torch.Tensor, factor: torch.Tensor) -> Any:
    """Return the package's sums."""
    function = getattr(torch_discounted_cumsum, f"discounted_cumsum_{row['to']}")
    return function(values, factor)


def exact(row: Row, values: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Return the same block by block, as products with a triangle of powers."""
    columns = values.shape[1]
    values = values if row["to"] == "left" else values.flip(1)
    blocks = torch.nn.functional.pad(values, (0, -columns % BLOCK)).view(len(values), -1, BLOCK)
    steps = torch.arange(BLOCK + 1, device=values.device)
    powers = factor[:, None] ** steps
    distance = steps[None, :-1] - steps[:-1, None]
    triangle = powers[:, distance.clip(min=0)] * (distance >= 0)
    sums = []
    carried = values.new_zeros(len(values), 1)
    for part in (blocks @ triangle).unbind(1):
        sums.append(part + carried * powers[:, 1:])
        carried = sums[-1][:, -1:]
    whole = torch.cat(sums, dim=1)[:, :columns]
    return whole if row["to"] == "left" else whole.flip(1)


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the sums, or the gradients of the values and of factors of each row."""
    values, factor, ahead = arguments
    if row["what"] == "forward":
        return function(row, values, factor)
    values = values.detach().requires_grad_()
    if row["factor"] != "of each row":
        return torch.autograd.grad(function(row, values, factor), values, ahead)
    factor = factor.detach().requires_grad_()
    return torch.autograd.grad(function(row, values, factor), (values, factor), ahead)


CALL = functools.partial(outputs, package)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        CALL,
        EXPECTED,
        limit=LIMITS[row["dtype"]],
        has_own_kernels=row["columns"] > 1,
        same_bits=True,
        memory=1 << 29,
    )


def timed_case(what: str, times: int) -> Case:
    """Return a case of memory's size, which is read and written `times`."""
    row = usual(AXES, what=what, rows=LARGE[0], columns=LARGE[1], factor="0.99")
    return Case(
        name=f"{what} left fp32 {LARGE[0]}x{LARGE[1]}",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=LIMITS["float32"],
        bytes=times * 2 * 4 * LARGE[0] * LARGE[1],
        rival=functools.partial(outputs, exact, row),
        rival_name="torch matmul, block by block",
        memory=12 << 30,
    )


GRIDS = ((AXES, lambda _: True, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", 1),
        timed_case("gradient", 2),
        *cases_of(*GRIDS),
    ]
