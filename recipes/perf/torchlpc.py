"""torchlpc against the filter's difference equation, step by step in float64, and gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from grid import case_of, cases_of, exactly, gradients_of, usual
from perf_case import Case
from torchlpc import sample_wise_lpc

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "torchlpc"
FRAMEWORK = "torch"
UNTOUCHED = (
    # Its kernels are launched on the default stream, which PyTorch's others don't wait for.
    "another stream than the default, which is wrong upstream",
    "gradients of gradients, and torch.func",
)
DEVICE = "cuda"

LIMITS = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}
LARGE: dict[str, Any] = {"batch": 64, "steps": 4096}

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "order": (2, 1, 5, 33),  # the first order has kernels of its own, a scan if it is long
    "dtype": ("float32", "float64", "complex64", "complex128"),
    "batch": (3, 1, 33),
    "steps": (100, 1, 257),
    "layout": ("rows", "transposed"),
}


def inputs(row: Row, seed: int) -> tuple[torch.Tensor, ...]:
    """Return signals, coefficients of a stable filter, its state, gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    kind = getattr(torch, row["dtype"])
    batch, steps, order = row["batch"], row["steps"], row["order"]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=DEVICE, generator=draw, dtype=kind)

    values = normal(batch, steps)
    if row["layout"] == "transposed":
        values = values.t().contiguous().t()
    places = normal(batch, steps, order)
    coefficients = 0.9 * places / places.abs().sum(-1, keepdim=True)
    return values, coefficients, normal(batch, order), normal(batch, steps)


def exact(values: torch.Tensor, coefficients: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Return the output: each value less the products with those before it, the last one first."""
    before, found = state, []
    for value, factors in zip(values.unbind(1), coefficients.unbind(1), strict=True):
        found.append(value - (factors * before).sum(-1))
        before = torch.cat([found[-1][:, None], before[:, :-1]], 1)
    return torch.stack(found, 1)


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the output, or the gradients of signal, coefficients and state."""
    *values, ahead = arguments
    return function(*values) if row["what"] == "forward" else gradients_of(function, values, ahead)


CALL = functools.partial(outputs, sample_wise_lpc)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(row, inputs, CALL, EXPECTED, limit=LIMITS[row["dtype"]], memory=1 << 30)


def timed_case(what: str, order: int) -> Case:
    """Return a case of long signals."""
    row = usual(AXES, **LARGE, what=what, order=order)
    return Case(
        name=f"{what} order {order} fp32 {row['batch']}x{row['steps']}",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=LIMITS[row["dtype"]],
        memory=1 << 30,
    )


GRIDS = ((AXES, lambda _: True, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", 1),
        timed_case("forward", 24),
        timed_case("gradient", 24),
        *cases_of(*GRIDS),
    ]
