"""torch-spline-conv against B-splines by their recursion, in float64: forward and gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from grid import case_of, cases_of, exactly, usual
from perf_case import Case
from torch_spline_conv import spline_basis, spline_conv

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "torch_spline_conv"
FRAMEWORK = "torch"
UNTOUCHED = (
    "coordinates at a knot, where rounding decides the interval",
    "gradients that aren't contiguous, whose strides upstream ignores",
    "more than 2^31 elements, NaN, infinities, no edges",
)
DEVICE = "cuda"

LIMITS = {"float32": 1e-5, "float64": 1e-12}  # sums of up to 2000 products
LARGE = {"nodes": 4096, "edges": 1 << 16, "channels": (32, 32)}
EVERYTHING = ("norm", "root", "bias")

Row = dict[str, Any]
Values = tuple[Any, ...]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "call": ("spline_conv", "spline_basis"),
    "degree": (1, 2, 3),
    "sizes": ((5, 5), (4,), (6, 4, 5)),  # of the kernel
    "open": ("all", "none", "first"),
    "dtype": ("float32", "float64"),
    "channels": ((8, 16), (1, 1), (33, 5)),
    "with": (EVERYTHING, (), ("norm",), ("root", "bias")),
    "edges": (2000, 1, 33),
    "nodes": (300, 1),
    "stream": ("current", "second"),
}


def exists(row: Row) -> bool:
    """Return False for gradients of a basis alone, which those of coordinates contain."""
    return row["what"] == "forward" or row["call"] == "spline_conv"


def inputs(row: Row, seed: int) -> Values:
    """Return features, edges, coordinates, weights, sizes, open dimensions, and so on."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    kind = getattr(torch, row["dtype"])
    (features, outputs_), count = row["channels"], len(row["sizes"])

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=DEVICE, generator=draw, dtype=kind)

    is_open = torch.full((count,), int(row["open"] == "all"), dtype=torch.uint8, device=DEVICE)
    is_open[0] = row["open"] != "none"
    sizes = torch.tensor(row["sizes"], device=DEVICE)
    parts = sizes - row["degree"] * is_open.long()
    shape = (row["edges"], count)
    within = torch.rand(shape, device=DEVICE, generator=draw, dtype=kind) * 0.9 + 0.05
    cell = (torch.rand(shape, device=DEVICE, generator=draw) * parts).long()
    return (
        normal(row["nodes"], features),
        torch.randint(row["nodes"], (2, row["edges"]), device=DEVICE, generator=draw),
        ((cell + within) / parts).to(kind),
        normal(int(sizes.prod()), features, outputs_),
        sizes,
        is_open,
        normal(features, outputs_) if "root" in row["with"] else None,
        normal(outputs_) if "bias" in row["with"] else None,
        normal(row["nodes"], outputs_),
    )


def package(row: Row, *values: Any) -> Any:
    """Return the package's result."""
    features, edges, places, weight, sizes, is_open, root, bias = values
    if row["call"] == "spline_basis":
        return spline_basis(places, sizes, is_open, row["degree"])
    return spline_conv(
        features,
        edges,
        places,
        weight,
        sizes,
        is_open,
        degree=row["degree"],
        norm="norm" in row["with"],
        root_weight=root,
        bias=bias,
    )


def pieces(within: torch.Tensor, degree: int) -> list[torch.Tensor]:
    """Return the pieces of the uniform B-splines that cover an interval (Cox and de Boor)."""
    zero, found = torch.zeros_like(within), [torch.ones_like(within)]
    for order in range(1, degree + 1):
        known = [zero, *found, zero]
        found = [
            ((within + order - k) * known[k] + (k + 1 - within) * known[k + 1]) / order
            for k in range(order + 1)
        ]
    return found


def exact_basis(row: Row, places: torch.Tensor, sizes: torch.Tensor, is_open: torch.Tensor) -> Any:
    """Return products of all dimensions' pieces, and the weights that they belong to."""
    basis, stride = places.new_ones(len(places), 1), 1
    index: Any = None
    for part, size, is_part_open in zip(places.unbind(-1), sizes, is_open, strict=True):
        scaled = part * (size - row["degree"] * is_part_open)
        values = torch.stack(pieces(scaled - scaled.floor(), row["degree"]), dim=-1)
        steps = torch.arange(row["degree"] + 1, device=places.device)
        cells = (scaled.floor().long()[:, None] + steps) % size * stride
        basis = (values[:, :, None] * basis[:, None]).flatten(1)
        index = cells if stride == 1 else (cells[:, :, None] + index[:, None]).flatten(1)
        stride = stride * size
    return basis, index


def exact(row: Row, *values: Any) -> Any:
    """Return the same from the products of all nodes with all weights."""
    features, (to, of), places, weight, sizes, is_open, root, bias = values
    basis, index = exact_basis(row, places, sizes, is_open)
    if row["call"] == "spline_basis":
        return basis, index
    products = torch.einsum("nf,kfo->nko", features, weight)
    sums = torch.einsum("es,eso->eo", basis, products[of[:, None], index])
    out = torch.zeros_like(sums[:1]).repeat(len(features), 1).index_add(0, to, sums)
    if "norm" in row["with"]:
        out = out / to.bincount(minlength=len(features)).clip(min=1)[:, None]
    out = out if root is None else out + features @ root
    return out if bias is None else out + bias


def outputs(function: Callable[..., Any], row: Row, *arguments: Any) -> Any:
    """Return the output, or the gradients of all floating-point inputs."""
    *values, ahead = arguments
    if row["what"] == "forward":
        return function(row, *values)
    leaves = [value.detach().requires_grad_() if is_real(value) else value for value in values]
    of = [leaf for leaf in leaves if is_real(leaf)]
    return torch.autograd.grad(function(row, *leaves), of, ahead)


CALL = functools.partial(outputs, package)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def is_real(value: Any) -> bool:
    """Return True for a tensor of floating-point numbers."""
    return value is not None and value.is_floating_point()


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        CALL,
        EXPECTED,
        joined={"with": "+"},
        limit=LIMITS[row["dtype"]],
        same_bits=row["call"] == "spline_basis",  # nodes and weights are added up by atomics
        memory=1 << 30,
    )


def timed_case(what: str, times: int) -> Case:
    """Return a case whose forward pass is done `times` over in operations."""
    row = usual(AXES, **LARGE, what=what)
    features, outputs_ = row["channels"]
    return Case(
        name=f"{what} spline_conv fp32 {row['edges']} edges, {features} to {outputs_} channels",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=LIMITS["float32"],
        operations=times * 2 * row["edges"] * 4 * features * outputs_,  # 4 weights of an edge
        precision="fp32",
        rival=functools.partial(outputs, exact, row),
        rival_name="torch einsum",
        memory=4 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", 1),
        timed_case("gradient", 4),  # of features, weights and basis too
        *cases_of(*GRIDS),
    ]
