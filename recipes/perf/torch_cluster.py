"""torch-cluster against the table of all distances, in float64."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch_cluster
from grid import case_of, cases_of, exactly, usual
from perf_case import Case

PACKAGE = "torch_cluster"
FRAMEWORK = "torch"
UNTOUCHED = (
    "graclus_cluster, random_walk, random starts of fps: their results are random",
    "neighbor_sampler, which is for the CPU",
    # fps_cuda.cu copies a size on the default stream, which PyTorch's others don't wait for.
    "fps on another stream than the default, which may be wrong upstream",
    "float16, more neighbours than max_num_neighbors",
    "no points; start and end of grid_cluster; graphs of knn and radius, which call these",
    "more than 2^31 elements, NaN, infinities",
)
DEVICE = "cuda"

STEPS = 512  # of a coordinate: float32 holds the squared distances exactly
RADIUS = 0.2  # its square is between two of these
CELL = 5 / STEPS
# Of distances and cosines, which the probe computes in float64; a cosine's rounding may choose.
LIMITS = {"knn": 1e-12, "nearest": 1e-12, "cosine knn": 1e-6}

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "call": ("knn", "cosine knn", "radius", "nearest", "fps", "grid"),
    "dtype": ("float32", "float64"),
    "points": (300, 33, 1025),  # of a cloud
    "clouds": (1, 3),
    "dimensions": (3, 1, 2, 7),
    "neighbours": (16, 1, 32),
    "stream": ("current", "second"),
}


def inputs(row: Row, seed: int) -> tuple[torch.Tensor, ...]:
    """Return points, places to look from, and the cloud of each of both."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    kind = getattr(torch, row["dtype"])
    clouds = torch.arange(row["clouds"], device=DEVICE)
    counts = (row["points"], row["points"] // 2)

    def coordinates(count: int) -> torch.Tensor:
        shape = (row["clouds"] * count, row["dimensions"])
        even = torch.rand(shape, device=DEVICE, generator=draw, dtype=kind)
        # The farthest point has to be one alone.
        return even if row["call"] == "fps" else (even * STEPS).ceil() / STEPS

    points, places = map(coordinates, counts)
    return points, places, *(clouds.repeat_interleave(count) for count in counts)


def package(row: Row, points: torch.Tensor, places: torch.Tensor, *clouds: torch.Tensor) -> Any:
    """Return the package's result."""
    of_points, of_places = clouds
    if row["call"] == "knn":
        near, found = torch_cluster.knn(points, places, row["neighbours"], *clouds)
        shape = (len(places), row["neighbours"])
        return near.view(shape), squares(points[found], places[near]).view(shape)
    if row["call"] == "cosine knn":
        near, found = torch_cluster.knn(points, places, row["neighbours"], *clouds, cosine=True)
        pairs = (points[found].double(), places[near].double())
        return torch.cosine_similarity(*pairs).view(len(places), -1)
    if row["call"] == "radius":
        pairs = torch_cluster.radius(points, places, RADIUS, *clouds, len(points))
        is_near = torch.zeros(len(places), len(points), device=DEVICE)
        return is_near.index_put((pairs[0], pairs[1]), is_near.new_ones(()))
    if row["call"] == "nearest":
        found = torch_cluster.nearest(places, points, of_places, of_points)
        return squares(points[found], places)
    if row["call"] == "fps":
        return torch_cluster.fps(points, of_points, ratio=0.25, random_start=False)
    return torch_cluster.grid_cluster(points, points.new_full(points.shape[1:], CELL))


def squares(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the squared distances of points by pairs."""
    return (first.double() - second.double()).square().sum(-1)


def table(points: torch.Tensor, places: torch.Tensor, *clouds: torch.Tensor) -> torch.Tensor:
    """Return the squared distances of all points from all places, infinite between clouds."""
    mode = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(places, points, compute_mode=mode).square()
    return distances.masked_fill(clouds[1][:, None] != clouds[0], torch.inf)


def farthest(points: torch.Tensor, of_points: torch.Tensor) -> torch.Tensor:
    """Return a quarter of each cloud's points, each the farthest from those before it."""
    chosen = []
    for cloud in of_points.unique():
        numbers = (of_points == cloud).nonzero()[:, 0]
        mine, last = points[numbers], 0
        least = mine.new_full((len(mine),), torch.inf)
        for _ in range(-(-len(mine) // 4)):
            chosen.append(numbers[last])
            least = least.minimum(squares(mine, mine[last]))
            last = int(least.argmax())
    return torch.stack(chosen)


def exact(row: Row, points: torch.Tensor, places: torch.Tensor, *clouds: torch.Tensor) -> Any:
    """Return the same from distances in the precision of the points."""
    if row["call"] == "fps":
        return farthest(points, clouds[0])
    if row["call"] == "grid":
        cells = ((points - points.amin(0)) / CELL).long()
        sizes = torch.nn.functional.pad(cells.amax(0)[:-1] + 1, (1, 0), value=1).cumprod(0)
        return (cells * sizes).sum(1)
    if row["call"] == "cosine knn":
        both = (torch.nn.functional.normalize(one) for one in (places, points))
        cosines = torch.einsum("pd,qd->pq", *both)
        cosines = cosines.masked_fill(clouds[1][:, None] != clouds[0], -torch.inf)
        return cosines.topk(row["neighbours"]).values
    distances = table(points, places, *clouds)
    if row["call"] == "knn":
        least = distances.topk(row["neighbours"], largest=False).values
        numbers = torch.arange(len(places), device=DEVICE)
        return numbers[:, None].expand_as(least).contiguous(), least
    return distances.amin(1) if row["call"] == "nearest" else (distances < RADIUS**2).double()


def exists(row: Row) -> bool:
    """Return False for more neighbours than a cloud's points, and for what is wrong upstream."""
    is_early = row["call"] == "fps" and row["stream"] == "second"
    return bool(row["points"] > row["neighbours"]) and not is_early


EXPECTED = functools.partial(exactly, exact)


def limit_of(row: Row) -> float:
    """Return the relative error that rounding explains; 0: numbers of points or cells."""
    return LIMITS.get(row["call"], 0.0)


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row, inputs, package, EXPECTED, limit=limit_of(row), same_bits=True, memory=1 << 30
    )


def timed_case(call: str, points: int) -> Case:
    """Return a case of one large cloud."""
    row = usual(AXES, call=call, points=points)
    has_rival = call != "fps"
    return Case(
        name=f"{call} fp32 {points} points",
        inputs=functools.partial(inputs, row),
        call=functools.partial(package, row),
        expected=functools.partial(EXPECTED, row),
        limit=limit_of(row),
        rival=functools.partial(exact, row) if has_rival else None,
        rival_name="torch" if has_rival else "",
        same_bits=True,
        memory=16 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("knn", 1 << 14),
        timed_case("radius", 1 << 14),
        timed_case("fps", 1 << 12),
        *cases_of(*GRIDS),
    ]
