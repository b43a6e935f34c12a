"""chamferdist against all distances in float64: sums, nearest neighbours and gradients."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import torch
from chamferdist import ChamferDistance
from chamferdist.chamfer import knn_points
from grid import case_of, cases_of, exactly, usual
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "chamferdist"
FRAMEWORK = "torch"
UNTOUCHED = (
    "gradients in float64, which upstream computes in float32",
    "return_nn, return_sorted=False; clouds of no points",
    "more than 2^31 elements, NaN, infinities",
)
DEVICE = "cuda"

LIMITS = {"float32": 1e-5, "float64": 1e-12}
CLOSE = 1e-5  # relative: float32 may find either of two points first
LARGE = {"batch": 8, "points": 16384, "others": 16384}

Row = dict[str, Any]
Values = tuple[torch.Tensor, ...]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "call": ("forward", "reverse", "both", "1 neighbour", "3 neighbours", "20 neighbours"),
    "dtype": ("float32", "float64"),
    "dimensions": (3, 1, 2, 8, 17, 33),
    "batch": (3, 1),
    "points": (500, 1, 257),
    "others": (700, 33),
    "sum over": ("sum", "mean"),
    "lengths": ("equal", "different"),
    "kernel": (-1, 0, 1, 2),  # -1: the fastest that has the dimensions and neighbours
    "stream": ("current", "second"),
}


def exists(row: Row) -> bool:
    """Return False for gradients in double precision, and for what `ChamferDistance` hasn't."""
    is_sum = not neighbours(row)
    if is_sum and (row["lengths"] == "different" or row["kernel"] >= 0):
        return False
    if row["dimensions"] > {1: 32, 2: 8}.get(row["kernel"], 64):
        return False  # another kernel takes its place
    return row["what"] == "forward" or row["dtype"] == "float32"


def inputs(row: Row, seed: int) -> Values:
    """Return two clouds, and gradients of the distances to neighbours; 0: some are as close."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    kind = getattr(torch, row["dtype"])
    sizes = (row["points"], row["others"])
    clouds = [
        torch.rand(row["batch"], size, row["dimensions"], device=DEVICE, generator=draw, dtype=kind)
        for size in sizes
    ]
    count = neighbours(row) or 1
    shape = (row["batch"], row["points"], count)
    ahead = torch.rand(shape, device=DEVICE, generator=draw, dtype=kind) + 0.5
    if row["what"] == "gradient" and neighbours(row):
        first, second = (cloud.double() for cloud in clouds)
        near = nearest(first, second, count + 1, points_of(row, "others"))
        is_close = near[..., 1:] < (1 + CLOSE) * near[..., :-1]
        ahead = ahead.masked_fill(is_close.any(-1, keepdim=True), 0)
    return *clouds, ahead


def points_of(row: Row, cloud: str) -> torch.Tensor:
    """Return how many points of each cloud count; of the last fewer than neighbours."""
    parts = itertools.cycle({"equal": (1,), "different": (1, 2, 70)}[row["lengths"]])
    sizes = [max(1, row[cloud] // part) for part in itertools.islice(parts, row["batch"])]
    return torch.tensor(sizes, device=DEVICE)


def neighbours(row: Row) -> int:
    """Return how many are looked for; 0: a sum over the nearest."""
    return int(row["call"].split()[0]) if "neighbour" in row["call"] else 0


def package(row: Row, cloud: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the package's distances, or their sum."""
    if count := neighbours(row):
        sizes = (points_of(row, "points"), points_of(row, "others"))
        found = knn_points(cloud, other, *sizes, K=count, version=row["kernel"])
        distances: torch.Tensor = found.dists
        return distances
    total: torch.Tensor = ChamferDistance()(
        cloud,
        other,
        bidirectional=row["call"] == "both",
        reverse=row["call"] == "reverse",
        batch_reduction=row["sum over"],
        point_reduction=row["sum over"],
    )
    return total


def exact(row: Row, cloud: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the same of all squared distances, a part of the cloud at a time."""
    if count := neighbours(row):
        found = nearest(cloud, other, count, points_of(row, "others"))
        number = torch.arange(cloud.shape[1], device=cloud.device)
        is_there = number < points_of(row, "points")[:, None]
        return found.where(is_there[..., None] & found.isfinite(), 0)
    to_other, from_other = nearest(cloud, other, 1)[..., 0], nearest(other, cloud, 1)[..., 0]
    of_points = [getattr(part, row["sum over"])(1) for part in (to_other, from_other)]
    forward, reverse = (getattr(part, row["sum over"])() for part in of_points)
    sums = {"forward": forward, "reverse": reverse, "both": forward + reverse}
    return sums[row["call"]]


def nearest(
    cloud: torch.Tensor, other: torch.Tensor, count: int, sizes: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the least squared distances of each point, in ascending order.

    Args:
        sizes: points of each of the other clouds; the distance of more is infinite.
    """
    parts = []
    for part in cloud.split(512, dim=1):
        with torch.no_grad():
            squares = (part[:, :, None] - other[:, None]).square().sum(-1)
            if sizes is not None:
                number = torch.arange(other.shape[1], device=other.device)
                squares = squares.where(number < sizes[:, None, None], torch.inf)
            least, places = squares.topk(count, largest=False)
        batch = torch.arange(len(other), device=other.device)[:, None, None]
        distances = (part[:, :, None] - other[batch, places]).square().sum(-1)
        parts.append(distances.where(least.isfinite(), torch.inf))
    return torch.cat(parts, dim=1)


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the result, or the gradients of both clouds."""
    cloud, other, ahead = arguments
    if row["what"] == "forward":
        return function(row, cloud, other)
    leaves = [value.detach().requires_grad_() for value in (cloud, other)]
    result = function(row, *leaves)
    ahead = ahead if neighbours(row) else torch.ones_like(result)
    return torch.autograd.grad(result, leaves, ahead)


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
        same_bits=bool(row["what"] == "forward" and neighbours(row)),  # sums and atomics
        memory=1 << 30,
    )


def timed_case(what: str, call: str) -> Case:
    """Return a case of large clouds."""
    row = usual(AXES, **LARGE, what=what, call=call)
    pairs = LARGE["batch"] * LARGE["points"] * LARGE["others"]
    return Case(
        name=f"{what} fp32 {LARGE['batch']}x{LARGE['points']} points",
        inputs=functools.partial(inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=LIMITS["float32"],
        operations=3 * 3 * pairs,
        precision="fp32",
        rival=functools.partial(outputs, exact, row),
        rival_name="torch, all distances",
        memory=16 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("forward", "forward"),
        timed_case("gradient", "1 neighbour"),
        *cases_of(*GRIDS),
    ]
