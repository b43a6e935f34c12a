"""nerfacc against PyTorch in float64: scans along rays with gradients, sampling, traversal."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import nerfacc
import torch
from grid import case_of, cases_of, exactly
from nerfacc import RayIntervals
from nerfacc.cameras import opencv_lens_undistortion
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "nerfacc"
FRAMEWORK = "torch"
UNTOUCHED = (
    "estimators, which call the functions below",
    "stratified sampling, which is random, and of a single interval",
    # pdf.cu allocates `false` samples (memalloc_data), and divides by them.
    "importance_sampling with a number for each ray, which ends the process upstream",
    "gradients of products with zeros, which are wrong upstream (scan.cu)",
    "traverse_grids with several grids, cone angles or limits; fisheye lenses",
    "more than 2^31 elements",
)
DEVICE = "cuda"

SAMPLES = 64  # of each ray of the timed cases
LARGE = 1 << 20  # rays: 256 MiB of samples
SINGLE = 3e-6  # relative: sums and products of up to 5000 values in float32
STEP = 1e-3  # of traversal, in a box of side 1
EDGES = 5e-3  # of a path through a grid: some borders of cells are off by a step
CELLS = 32  # along each side of the grid
DISTORTION = (0.1, -0.03, 0.002, 0.001, 0.01, 0.04, 0.003, -0.002)  # OpenCV's k1 k2 p1 p2 k3 to k6

Row = dict[str, Any]
Values = tuple[torch.Tensor, ...]

SCANS: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "gradient"),
    "call": (
        "inclusive_sum",
        "exclusive_sum",
        "inclusive_prod",
        "exclusive_prod",
        "weight_from_density",
        "weight_from_alpha",
    ),
    "samples": ("1 to 70", "0 to 3", "31 to 33", "one each", "all in one"),
    "rays": (1000, 1, 31, 33),
    "stream": ("current", "second"),
}
SAMPLING: dict[str, tuple[Any, ...]] = {
    "call": ("importance_sampling", "searchsorted"),
    "edges": ("2 to 70", "all 33"),
    "new": (48, 2, 33),
    "form": ("batch", "flat"),
    "rays": (1000, 1, 33),
}


def lengths_of(kind: str, rays: int, draw: torch.Generator) -> torch.Tensor:
    """Return the number of samples of each ray."""
    if kind == "all in one":
        return torch.tensor([0] * (rays // 2) + [5000] + [0] * ((rays - 1) // 2), device=DEVICE)
    if kind.startswith(("one each", "all ")):
        return torch.full((rays,), int(kind.removeprefix("all ").replace("one each", "1")))
    least, most = map(int, kind.split(" to "))
    lengths = torch.randint(least, most + 1, (rays,), device=DEVICE, generator=draw)
    return lengths.index_fill(0, torch.tensor([0], device=DEVICE), most)  # never empty as a whole


def packed(lengths: torch.Tensor) -> torch.Tensor:
    """Return start and count of each ray's samples."""
    lengths = lengths.to(DEVICE)
    return torch.stack([lengths.cumsum(0) - lengths, lengths], dim=-1)


def scan_inputs(row: Row, seed: int) -> Values:
    """Return values of about 1 for products, of up to 0.1 else; rays; gradients of the output."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    of_rays = packed(lengths_of(row["samples"], row["rays"], draw))
    even = torch.rand(int(of_rays[:, 1].sum()), device=DEVICE, generator=draw)
    values = 0.98 + 0.04 * even if row["call"].endswith("prod") else 0.1 * even
    return values, of_rays, torch.rand(len(even), device=DEVICE, generator=draw) + 0.5


def scanned(row: Row, values: torch.Tensor, of_rays: torch.Tensor) -> Any:
    """Return the package's sums, products or weights."""
    if row["call"] == "weight_from_alpha":
        return nerfacc.render_weight_from_alpha(values, packed_info=of_rays)[0]
    if row["call"] == "weight_from_density":
        ends = torch.ones_like(values)
        return nerfacc.render_weight_from_density(0 * ends, ends, values, packed_info=of_rays)[0]
    return getattr(nerfacc, row["call"])(values, of_rays)


def along(rays: torch.Tensor, values: torch.Tensor, call: str) -> torch.Tensor:
    """Return PyTorch's scan of the rays, each in a row that is filled up."""
    fill = float(call.endswith("prod"))
    starts, counts = rays.unbind(-1)
    row = torch.arange(len(rays), device=values.device).repeat_interleave(counts)
    column = torch.arange(len(values), device=values.device) - starts[row]
    table = values.new_full((len(rays), int(counts.max()) + 1), fill)
    if call.startswith("exclusive"):
        table = table.index_put((row, column + 1), values)
    else:
        table = table.index_put((row, column), values)
    whole = table.cumprod(-1) if fill else table.cumsum(-1)
    return whole[row, column]


def exact_scan(row: Row, values: torch.Tensor, of_rays: torch.Tensor) -> torch.Tensor:
    """Return the same by PyTorch."""
    if row["call"] == "weight_from_alpha":
        return values * along(of_rays, 1 - values, "exclusive_prod")
    if row["call"] == "weight_from_density":
        return -torch.expm1(-values) * torch.exp(-along(of_rays, values, "exclusive_sum"))
    return along(of_rays, values, row["call"])


def outputs(function: Callable[..., Any], row: Row, *arguments: torch.Tensor) -> Any:
    """Return the output, or the gradient of the values."""
    values, of_rays, ahead = arguments
    if row["what"] == "forward":
        return function(row, values, of_rays)
    leaf = values.detach().requires_grad_()
    return torch.autograd.grad(function(row, leaf, of_rays), leaf, ahead)


CALL = functools.partial(outputs, scanned)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact_scan))


def scan_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        scan_inputs,
        CALL,
        EXPECTED,
        limit=SINGLE,
        same_bits=True,
        memory=1 << 28,
    )


def is_offered(row: Row) -> bool:
    """Return False for batches of rays of different lengths."""
    return row["form"] == "flat" or row["edges"].startswith("all")


def sampling_inputs(row: Row, seed: int) -> Values:
    """Return rising edges and a rising distribution of each ray, its edges, its new values."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    of_rays = packed(lengths_of(row["edges"], row["rays"], draw))
    count = int(of_rays[:, 1].sum())
    steps = torch.rand(2, count, device=DEVICE, generator=draw) + 0.1
    edges, rising = (along(of_rays, step, "inclusive_sum") for step in steps)
    places = torch.rand(row["rays"], row["new"], device=DEVICE, generator=draw)
    span = edges[of_rays.sum(-1) - 1, None]
    return edges, rising, of_rays, 1.2 * span * places.sort(-1)[0]


def intervals(row: Row, values: torch.Tensor, of_rays: torch.Tensor) -> RayIntervals:
    """Return values as the package takes them."""
    if row["form"] == "batch":
        return RayIntervals(values.view(len(of_rays), -1))
    return RayIntervals(values.flatten(), packed_info=of_rays)


def sampled(row: Row, *arguments: torch.Tensor) -> Values:
    """Return the package's samples and the edges between them, or places on both sides."""
    edges, rising, of_rays, places = arguments
    known = intervals(row, edges, of_rays)
    if row["call"] == "searchsorted":
        new = torch.full((row["rays"],), row["new"], device=edges.device)
        found: Values = nerfacc.searchsorted(known, intervals(row, places, packed(new)))
        return found
    shares = rising.view(known.vals.shape)
    around, samples = nerfacc.importance_sampling(known, shares, row["new"])
    return samples.vals.flatten(), around.vals.flatten()


def exact_samples(row: Row, *arguments: torch.Tensor) -> Values:
    """Return the same in float64, ray by ray."""
    edges, rising, of_rays, places = (value.double() for value in arguments)
    found = []
    for (start, count), query in zip(of_rays.long().tolist(), places, strict=True):
        part = slice(start, start + count)
        if row["call"] == "searchsorted":
            after = torch.searchsorted(edges[part][:-1].contiguous(), query, right=True)
            base = 0 if row["form"] == "batch" else start
            found.append((base + (after - 1).clip(min=0), base + after))
        else:
            found.append(resampled(edges[part], rising[part], row["new"]))
    left, right = (torch.cat(parts) for parts in zip(*found, strict=True))
    if row["call"] == "searchsorted" and row["form"] == "batch":
        return left.view(places.shape), right.view(places.shape)
    return left, right


def resampled(edges: torch.Tensor, rising: torch.Tensor, count: int) -> Values:
    """Return samples at equal parts of a distribution, and the edges between them."""
    middle = (torch.arange(count, device=edges.device) + 0.5) / count
    shares = rising[0] + middle * (rising[-1] - rising[0])
    after = torch.searchsorted(rising, shares, right=True).clip(1, len(rising) - 1)
    slope = (edges[after] - edges[after - 1]) / (rising[after] - rising[after - 1])
    samples = edges[after - 1] + (shares - rising[after - 1]) * slope
    between = (samples[1:] + samples[:-1]) / 2
    first = (1.5 * samples[:1] - 0.5 * samples[1:2]).clip(min=edges[0])
    last = (1.5 * samples[-1:] - 0.5 * samples[-2:-1]).clip(max=edges[-1])
    return samples, torch.cat([first, between, last])


def sampling_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        sampling_inputs,
        sampled,
        exact_samples,
        limit=SINGLE,
        same_bits=True,
        memory=1 << 28,
    )


def ray_inputs(seed: int) -> Values:
    """Return rays from around a box towards its inside, boxes, a grid of which half is full."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    normal = functools.partial(torch.randn, device=DEVICE, generator=draw)
    starts = 2 * torch.nn.functional.normalize(normal(1000, 3), dim=-1) + 0.5
    towards = torch.rand(1000, 3, device=DEVICE, generator=draw)
    directions = torch.nn.functional.normalize(towards - starts, dim=-1)
    boxes = torch.tensor([[0, 0, 0, 1, 1, 1], [0.5, 0.5, 0.5, 2, 2, 2]], device=DEVICE)
    full = torch.rand(1, CELLS, CELLS, CELLS, device=DEVICE, generator=draw) < 0.5
    return starts, directions, boxes, full


def crossed(starts: torch.Tensor, directions: torch.Tensor, boxes: torch.Tensor, _: object) -> Any:
    """Return where rays enter and leave boxes, and which they hit, by the package."""
    return nerfacc.ray_aabb_intersect(starts, directions, boxes, miss_value=-1.0)


def exact_crossed(*arguments: torch.Tensor) -> Values:
    """Return the same in float64."""
    starts, directions, boxes = (value.double() for value in arguments[:3])
    low, high = ((side - starts[:, None]) / directions[:, None] for side in boxes.split(3, -1))
    enters, leaves = torch.minimum(low, high).amax(-1), torch.maximum(low, high).amin(-1)
    hits = (leaves > enters) & (leaves > 0)
    return enters.where(hits, -1), leaves.where(hits, -1), hits.double()


def traversed(
    starts: torch.Tensor, directions: torch.Tensor, boxes: torch.Tensor, full: torch.Tensor
) -> torch.Tensor:
    """Return how much of each ray is in full cells, by the package."""
    _, samples, _ = nerfacc.traverse_grids(starts, directions, full, boxes[:1], step_size=STEP)
    return samples.ray_indices.bincount(minlength=len(starts)) * STEP


def exact_traversed(*arguments: torch.Tensor) -> torch.Tensor:
    """Return the same by the cells of all steps' middles."""
    starts, directions = (value.double() for value in arguments[:2])
    lengths = torch.zeros(len(starts), dtype=torch.float64, device=starts.device)
    for distance in torch.arange(0.5 * STEP, 4, STEP, dtype=torch.float64).split(512):
        at = distance.to(starts.device)[:, None, None]
        points = starts + at * directions
        cells = (points * CELLS).floor().long()
        is_inside = ((cells >= 0) & (cells < CELLS)).all(-1)
        x, y, z = cells.clip(0, CELLS - 1).unbind(-1)
        lengths += STEP * (arguments[3][0, x, y, z] & is_inside).sum(0)
    return lengths


def lens_inputs(seed: int) -> Values:
    """Return points of a distorted picture."""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    return (torch.rand(10_000, 2, device=DEVICE, generator=draw) - 0.5,)


def bent_again(points: torch.Tensor) -> torch.Tensor:
    """Return OpenCV's distortion, in float64, of what the package undistorted."""
    straight = opencv_lens_undistortion(points, torch.tensor(DISTORTION, device=points.device))
    k1, k2, p1, p2, k3, k4, k5, k6 = DISTORTION
    u, v = straight.double().unbind(-1)
    r = u * u + v * v
    ratio = (1 + r * (k1 + r * (k2 + r * k3))) / (1 + r * (k4 + r * (k5 + r * k6)))
    across = u * ratio + 2 * p1 * u * v + p2 * (r + 2 * u * u)
    down = v * ratio + 2 * p2 * u * v + p1 * (r + 2 * v * v)
    return torch.stack([across, down], dim=-1)


def ray_cases() -> list[Case]:
    """Return crossings of boxes, paths through a grid, a lens: all only checked."""
    common: dict[str, Any] = {"is_timed": False, "same_bits": True, "memory": 1 << 30}
    return [
        Case(
            name="ray_aabb_intersect 1000 rays, 2 boxes",
            inputs=ray_inputs,
            call=crossed,
            expected=exact_crossed,
            limit=SINGLE,
            **common,
        ),
        Case(
            name=f"traverse_grids 1000 rays, {CELLS}^3 cells",
            inputs=ray_inputs,
            call=traversed,
            expected=exact_traversed,
            limit=EDGES,
            **common,
        ),
        Case(
            name="opencv_lens_undistortion 10000 points",
            inputs=lens_inputs,
            call=bent_again,
            expected=lambda points: points.double(),
            limit=SINGLE,
            **common,
        ),
    ]


def timed_case(what: str, call: str, moved: int) -> Case:
    """Return a case of rays of equal length, whose samples are read or written `moved` times."""
    row: Row = {"what": what, "call": call, "samples": f"all {SAMPLES}", "rays": LARGE}

    def in_rows(row: Row, values: torch.Tensor, _: object) -> torch.Tensor:
        table = values.view(LARGE, SAMPLES)
        if row["call"] == "inclusive_sum":
            return table.cumsum(-1).view(-1)
        before = torch.nn.functional.pad(1 - table[:, :-1], (1, 0), value=1.0)
        return (table * before.cumprod(-1)).view(-1)

    return Case(
        name=f"{what} {call} fp32 {LARGE}x{SAMPLES}",
        inputs=functools.partial(scan_inputs, row),
        call=functools.partial(CALL, row),
        expected=functools.partial(EXPECTED, row),
        limit=SINGLE,
        bytes=4 * LARGE * SAMPLES * moved,
        rival=functools.partial(outputs, in_rows, row),
        rival_name="torch, rays of equal length",
        memory=24 << 30,
    )


GRIDS = ((SCANS, lambda _: True, scan_case), (SAMPLING, is_offered, sampling_case))


def cases() -> list[Case]:
    """Return large cases to check and to measure; rays; the grids."""
    return [
        timed_case("forward", "inclusive_sum", 2),
        timed_case("forward", "weight_from_alpha", 2),
        timed_case("gradient", "weight_from_alpha", 3),
        *ray_cases(),
        *cases_of(*GRIDS),
    ]
