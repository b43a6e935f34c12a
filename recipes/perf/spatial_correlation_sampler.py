"""spatial-correlation-sampler against products of shifted images, in float64, and gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from grid import case_of, cases_of, exactly, gradients_of, usual
from perf_case import Case
from spatial_correlation_sampler import spatial_correlation_sample
from torch.nn.functional import pad, unfold

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "spatial_correlation_sampler"
FRAMEWORK = "torch"
UNTOUCHED = (
    # Its kernels are launched on the default stream, which PyTorch's others don't wait for.
    "another stream than the default, which is wrong upstream",
    "patches of an even size, whose middle upstream's gradients round otherwise",
    "float16, whose sums upstream rounds at each step",
    "kernels, strides and patches that differ by dimension",
    "more than 2^31 elements, NaN, infinities, no images",
)
KNOWN_PROBLEMS = {
    "racecheck: correlation_cuda_forward_kernel: Warning: Race reported between Write access": (
        "upstream has no barrier between a sum and the next patch's zeros, in the same warp"
    ),
}
DEVICE = "cuda"

LIMITS = {"float32": 1e-5, "float64": 1e-12}  # sums of up to 1600 products
LARGE: dict[str, Any] = {"channels": 256, "size": (48, 64), "patch": 21}

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "dtype": ("float32", "float64"),
    "batch": (2, 1),
    "channels": (33, 1, 64),
    "size": ((12, 17), (7, 5)),
    "kernel": (1, 3),
    "patch": (5, 1, 9),
    "stride": (1, 2),
    "padding": (0, 2),
    "dilation": (1, 2),
    "dilation_patch": (1, 2),
}


def options(row: Row) -> dict[str, int]:
    """Return what both functions take by name."""
    return {name: row[name] for name in ("stride", "padding", "dilation", "dilation_patch")} | {
        "kernel_size": row["kernel"],
        "patch_size": row["patch"],
    }


def count(row: Row, length: int) -> int:
    """Return the places of a kernel in a dimension."""
    covered = row["dilation"] * (row["kernel"] - 1) + 1
    return int((length + 2 * row["padding"] - covered) // row["stride"] + 1)


def inputs(row: Row, seed: int) -> tuple[torch.Tensor, ...]:
    """Return two images, and gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    shape = (row["batch"], row["channels"], *row["size"])
    places = tuple(count(row, length) for length in row["size"])
    ahead = (row["batch"], row["patch"], row["patch"], *places)
    kind = getattr(torch, row["dtype"])
    return tuple(
        torch.randn(size, device=DEVICE, generator=draw, dtype=kind)
        for size in (shape, shape, ahead)
    )


def exact(row: Row, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the sums, one shift of the second image after the other."""
    step: int = row["dilation_patch"]
    height, width = row["size"]
    reach = step * (row["patch"] - 1) // 2
    windows = functools.partial(
        unfold,
        kernel_size=row["kernel"],
        dilation=row["dilation"],
        padding=row["padding"],
        stride=row["stride"],
    )
    around, fixed = pad(second, (reach,) * 4), windows(first)
    sums = [
        (fixed * windows(around[..., down : down + height, right : right + width])).sum(1)
        for down in range(0, 2 * reach + 1, step)
        for right in range(0, 2 * reach + 1, step)
    ]
    places = (count(row, height), count(row, width))
    return torch.stack(sums, 1).view(row["batch"], row["patch"], row["patch"], *places)


def package(row: Row, first: torch.Tensor, second: torch.Tensor) -> Any:
    """Return the package's sums."""
    return spatial_correlation_sample(first, second, **options(row))


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the output, or the gradients of both images."""
    *images, ahead = arguments
    call = functools.partial(function, row)
    return call(*images) if row["what"] == "forward" else gradients_of(call, images, ahead)


CALL = functools.partial(outputs, package)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row, inputs, CALL, EXPECTED, limit=LIMITS[row["dtype"]], same_bits=True, memory=1 << 30
    )


def timed_case(what: str, times: int) -> Case:
    """Return the layer of FlowNetC, whose forward pass is done `times` over in operations."""
    row = usual(AXES, **LARGE, what=what)
    (height, width), channels, patch = row["size"], row["channels"], row["patch"]
    return Case(
        name=f"{what} fp32 {row['batch']}x{channels}x{height}x{width}, patch {patch}",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=LIMITS["float32"],
        operations=times * 2 * row["batch"] * channels * height * width * patch**2,
        precision="fp32",
        rival=functools.partial(outputs, exact, row),
        rival_name="torch unfold",
        memory=24 << 30,
    )


GRIDS = ((AXES, lambda _: True, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [timed_case("forward", 1), timed_case("gradient", 2), *cases_of(*GRIDS)]
