"""torch-harmonics' convolutions on the sphere against its own in PyTorch, in float64."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from grid import name_of, on_second_stream, pairwise
from perf_case import Case
from torch_harmonics import DiscreteContinuousConvS2, DiscreteContinuousConvTransposeS2

PACKAGE = "torch_harmonics"
FRAMEWORK = "torch"
UNTOUCHED = (
    "attention in a neighbourhood",
    "transforms to harmonics and resampling, which call PyTorch alone",
    "16 bits and double precision, which upstream computes in float32",
)
DEVICE = "cuda"

LIMIT = 1e-5  # relative: sums of up to 1000 products in float32
LARGE = {"batch": 2, "channels": 16, "from": (91, 180), "to": (91, 180)}

Row = dict[str, Any]
Layer = Any  # a module of PyTorch

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "call": ("convolution", "transpose"),
    "batch": (2, 1),
    "channels": (8, 1),
    "from": ((16, 32), (9, 18), (33, 64)),
    "to": ((16, 32), (8, 16), (12, 64)),
    "kernel": (3, (2, 4)),
    "grid": ("equiangular", "legendre-gauss"),
    "bias": (True, False),
    "stream": ("current", "second"),
}


LAYER = ("call", "channels", "from", "to", "kernel", "grid", "bias")  # axes that make a layer


def exists(row: Row) -> bool:
    """Return False where the longitudes of one grid aren't some of the other's."""
    fine, coarse = row["from"], row["to"]
    if row["call"] == "transpose":
        fine, coarse = coarse, fine
    # In PyTorch upstream has no fewer longitudes than the coarse grid has latitudes.
    return bool(fine[1] % coarse[1] == 0 and fine[1] >= coarse[0])


@functools.cache
def layer_of(values: tuple[Any, ...]) -> Layer:
    """Return a layer on the GPU, with the same weights in each run."""
    row = dict(zip(LAYER, values, strict=True))
    torch.manual_seed(0)
    kinds = {
        "convolution": DiscreteContinuousConvS2,
        "transpose": DiscreteContinuousConvTransposeS2,
    }
    layer: Layer = kinds[row["call"]](
        *(row["channels"], row["channels"], row["from"], row["to"]),
        kernel_shape=row["kernel"],
        grid_in=row["grid"],
        grid_out=row["grid"],
        bias=row["bias"],
    )
    return layer.to(DEVICE)


@functools.cache
def exact_layer_of(values: tuple[Any, ...]) -> Layer:
    """Return the same in float64, and where upstream takes PyTorch for it: on the CPU."""
    layer = copy.deepcopy(layer_of(values)).cpu().double()
    for name in ("psi", "psi_st"):  # tables that are no buffers
        if hasattr(layer, name):
            setattr(layer, name, getattr(layer, name).cpu().double())
    return layer


def inputs(row: Row, seed: int) -> tuple[torch.Tensor, ...]:
    """Return a field, and gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    shapes = [(row["batch"], row["channels"], *row[grid]) for grid in ("from", "to")]
    field, ahead = (torch.randn(shape, device=DEVICE, generator=draw) for shape in shapes)
    return field, ahead


def outputs(layer: Layer, row: Row, field: torch.Tensor, ahead: torch.Tensor) -> Any:
    """Return the output, or the gradients of field and weights."""
    if row["what"] == "forward":
        return layer(field).detach()
    leaf = field.detach().requires_grad_()
    return torch.autograd.grad(layer(leaf), (leaf, *layer.parameters()), ahead)


def called(row: Row, *arguments: torch.Tensor) -> Any:
    """Call the package on the row's stream."""
    layer = layer_of(tuple(row[name] for name in LAYER))
    function = functools.partial(outputs, layer, row)
    return (
        on_second_stream(function, *arguments)
        if row["stream"] == "second"
        else function(*arguments)
    )


def expected(row: Row, *arguments: torch.Tensor) -> Any:
    """Return the result in float64."""
    layer = exact_layer_of(tuple(row[name] for name in LAYER))
    return outputs(layer, row, *(value.cpu().double() for value in arguments))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return Case(
        name=name_of(row),
        inputs=functools.partial(inputs, row),
        call=functools.partial(called, row),
        expected=functools.partial(expected, row),
        limit=LIMIT,
        is_grid=True,
        is_timed=False,
        memory=1 << 28,
    )


def timed_case(what: str) -> Case:
    """Return a case of a field of two degrees."""
    row: Row = {**{name: values[0] for name, values in AXES.items()}, **LARGE, "what": what}
    return Case(
        name=f"{what} convolution fp32 {LARGE['channels']} channels, 91x180",
        inputs=functools.partial(inputs, row),
        call=functools.partial(called, row),
        expected=functools.partial(expected, row),
        limit=LIMIT,
        memory=8 << 30,
    )


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward"),
        timed_case("gradient"),
        *(grid_case(row) for row in pairwise(AXES, exists)),
    ]
