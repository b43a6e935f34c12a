"""torchsort against isotonic regression by its minimax formula, in float64."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torchsort
from grid import case_of, cases_of, exactly, usual
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "torchsort"
FRAMEWORK = "torch"
UNTOUCHED = (
    # Its kernels are launched on the default stream, which PyTorch's others don't wait for.
    "another stream than the default, which is wrong upstream",
    "float16, which upstream adds up and counts in",
    "equal values, whose gradients depend on their order",
    "NaN, infinities, no rows, no values",
)
DEVICE = "cuda"

# Differences of the inputs, and for `kl` exponentials of them, which are up to 40.
LIMITS = {("l2", "float32"): 1e-5, ("kl", "float32"): 2e-4}
PRECISE = 1e-11  # in float64
NOTHING = -1e30  # its exponential is 0, and its gradient no NaN
LARGE = (4096, 128)  # rows, values

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "call": ("soft_rank", "soft_sort"),
    "regularization": ("l2", "kl"),
    "strength": (1.0, 0.1, 10.0),
    "dtype": ("float32", "float64"),
    "rows": (33, 1, 1025),
    "values": (50, 1, 2, 33),
    "layout": ("rows", "transposed"),
}


def inputs(row: Row, seed: int) -> tuple[torch.Tensor, ...]:
    """Return values, and gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    shape = (row["rows"], row["values"])
    kind = getattr(torch, row["dtype"])
    values, ahead = torch.randn((2, *shape), device=DEVICE, generator=draw, dtype=kind)
    return (values.t().contiguous().t() if row["layout"] == "transposed" else values), ahead


def package(row: Row, values: torch.Tensor) -> Any:
    """Return the package's result."""
    function = getattr(torchsort, row["call"])
    return function(
        values, regularization=row["regularization"], regularization_strength=row["strength"]
    )


def falling_from(levels: torch.Tensor) -> torch.Tensor:
    """Return the falling sequence of which the levels of all blocks are known.

    Each value is the least, over the blocks' beginnings up to it, of the greatest level of those
    that end from there on (Barlow and others, "Statistical inference under order restrictions").
    """
    ends_later = levels.flip(-1).cummax(-1).values.flip(-1)
    begins_before = torch.ones(levels.shape[-2:], dtype=torch.bool, device=levels.device).triu()
    return ends_later.masked_fill(~begins_before, torch.inf).amin(-2)


def quadratic(values: torch.Tensor) -> torch.Tensor:
    """Return the isotonic regression by least squares: a block's level is its mean."""
    total = torch.nn.functional.pad(values.cumsum(-1), (1, 0))
    sums = total[..., None, 1:] - total[..., :-1, None]
    place = torch.arange(values.shape[-1], device=values.device)
    length = place - place[:, None] + 1
    return falling_from((sums / length.clip(min=1)).masked_fill(length < 1, -torch.inf))


def entropic(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the same by Kullback and Leibler's distance."""
    place = torch.arange(values.shape[-1], device=values.device)
    is_block = place >= place[:, None]
    upper, lower = (
        part[..., None, :].where(is_block, NOTHING).logcumsumexp(-1) for part in (values, weights)
    )
    return falling_from((upper - lower).where(is_block, -torch.inf))


def exact(row: Row, values: torch.Tensor) -> torch.Tensor:
    """Return the same by these."""
    count, is_entropic = values.shape[-1], row["regularization"] == "kl"
    falling = torch.arange(count, 0, -1, device=values.device, dtype=values.dtype)
    falling = falling.expand_as(values)
    if row["call"] == "soft_sort":
        ordered = (-values).sort(descending=True).values
        falling = falling / row["strength"]
        if is_entropic:
            return entropic(falling, ordered) - falling
        return quadratic(falling - ordered) - falling
    ordered, places = (values / row["strength"]).sort(descending=True)
    if is_entropic:
        ranks = (ordered - entropic(ordered, falling.log())).exp()
    else:
        ranks = ordered - quadratic(ordered - falling)
    return ranks.gather(1, places.argsort())


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the output, or the gradient of the values."""
    values, ahead = arguments
    if row["what"] == "forward":
        return function(row, values)
    leaf = values.detach().requires_grad_()
    return torch.autograd.grad(function(row, leaf), leaf, ahead)


CALL = functools.partial(outputs, package)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def limit_of(row: Row) -> float:
    """Return the relative error that rounding explains."""
    return LIMITS.get((row["regularization"], row["dtype"]), PRECISE)


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        CALL,
        EXPECTED,
        limit=limit_of(row),
        same_bits=True,
        memory=1 << 30,
    )


def timed_case(what: str, call: str) -> Case:
    """Return a case of many rows."""
    row = usual(AXES, what=what, call=call, rows=LARGE[0], values=LARGE[1])
    return Case(
        name=f"{what} {call} l2 fp32 {LARGE[0]}x{LARGE[1]}",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=limit_of(row),
        rival=functools.partial(outputs, exact, row),
        rival_name="torch, minimax",
        memory=12 << 30,
    )


GRIDS = ((AXES, lambda _: True, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", "soft_rank"),
        timed_case("gradient", "soft_rank"),
        timed_case("gradient", "soft_sort"),
        *cases_of(*GRIDS),
    ]
