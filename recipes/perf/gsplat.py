"""gsplat's rasterization against a picture composed pixel by pixel: forward, and with gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import comb
from typing import TYPE_CHECKING, Any

import gsplat
import torch
from grid import (
    case_of,
    cases_of,
    exactly,
    gradients_of,
    random_of,
)
from gsplat.cuda._torch_impl import (
    _fisheye_proj,
    _fully_fused_projection,
    _ortho_proj,
    _persp_proj,
    _quat_scale_to_covar_preci,
    _spherical_harmonics,
)
from gsplat.relocation import compute_relocation
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = "gsplat"
FRAMEWORK = "torch"
OWN_SHARE = 0.4  # an H100 had 0.6 at least
UNTOUCHED = (
    "rasterization_2dgs and what is under it",
    "the unscented transform, Gaussians in the world, distortions, rolling shutters",
    "backgrounds with packed=True, sparse gradients of covariances, which upstream refuses",
    "pictures by several GPUs, several scenes at once, no Gaussians, radius_clip, absgrad",
    "more than 2^31 elements; rasterize_to_indices_in_range, compression, strategies and export",
)
DEVICE = "cuda"

TILE = 16  # pixels along a side
TOGETHER = 32  # tiles that the reference composes at once: about 2 GiB with their gradients
LEAST_ALPHA, MOST_ALPHA, LEAST_LEFT = 1 / 255, 0.999, 1e-4  # as the kernels have them
# In float32: a projection rounded to it changes the large picture by 6e-6, and an alpha beside the
# least that is drawn may fall on the other side.
LIMIT = 1e-4
GRADIENT_LIMIT = 1e-3  # backward divides by 1 - alpha, which may be as small as 0.001
# Of blocks, 3.5 times the limit was seen in pictures and 17 in gradients: H100, 2026-11-27.
EDGES = "a Gaussian at the threshold of a pixel, 1/255, may be drawn there or not"
LEARNED = 5  # of the inputs, the first: means, quaternions, scales, opacities, colors

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A picture to draw.

    Attributes:
        count: Gaussians.
        width, height: of the picture in pixels.
        size: of a Gaussian at most, where the scene is four units wide and five away.
    """

    count: int
    width: int
    height: int
    size: float


SMALL = Scene(count=400, width=128, height=112, size=0.3)
LARGE = Scene(count=1_000_000, width=1920, height=1080, size=0.01)


def inputs(scene: Scene, seed: int) -> Inputs:
    """Random Gaussians before a camera; the camera; gradients of picture and opacity."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    even = partial(torch.rand, device=DEVICE, generator=generator)
    normal = partial(torch.randn, device=DEVICE, generator=generator)
    means = even(scene.count, 3) * 4 - 2
    means[:, 2] += 5
    focal = float(scene.width)
    camera = [[focal, 0, scene.width / 2], [0, focal, scene.height / 2], [0, 0, 1]]
    return (
        means,
        torch.nn.functional.normalize(normal(scene.count, 4), dim=-1),
        even(scene.count, 3) * scene.size + 0.005,
        even(scene.count),
        even(scene.count, 3),
        torch.eye(4, device=DEVICE)[None],
        torch.tensor(camera, device=DEVICE)[None],
        normal(1, scene.height, scene.width, 3),
        normal(1, scene.height, scene.width, 1),
    )


def forward(*tensors: torch.Tensor, scene: Scene, packed: bool) -> Inputs:
    """Colors and opacity of each pixel by the package."""
    colors, opacity, _ = gsplat.rasterization(
        *tensors[:7], width=scene.width, height=scene.height, packed=packed
    )
    return colors, opacity


def backward(*tensors: torch.Tensor, scene: Scene, packed: bool) -> Inputs:
    """Gradients of what a scene learns, by the package."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors[:LEARNED]]
    drawn = forward(*leaves, *tensors[LEARNED:], scene=scene, packed=packed)
    return torch.autograd.grad(drawn, leaves, tensors[-2:])


@dataclass(frozen=True, kw_only=True)
class Projected:
    """Gaussians as the camera sees them, and which tiles each touches.

    Attributes:
        flat: center, conic, opacity and color of each in a row; a last row draws nothing.
        seen: rows of `flat`, tile by tile, from front to back.
        starts: where in `seen` each tile begins.
        counts: how many rows each tile has.
    """

    flat: torch.Tensor
    seen: torch.Tensor
    starts: torch.Tensor
    counts: torch.Tensor


def project(*tensors: torch.Tensor, scene: Scene) -> Projected:
    """The projection in float64, by gsplat's own reference in PyTorch."""
    means, quats, scales, opacities, colors, views, cameras = tensors
    covariances, _ = _quat_scale_to_covar_preci(quats, scales, compute_preci=False)
    return project_with(means, covariances, opacities, colors, views, cameras, scene=scene)


def project_with(
    *tensors: torch.Tensor, scene: Scene, has_depths: bool = False, **options: Any
) -> Projected:
    """The same of covariances, for the first of some cameras; the depth may be the last color."""
    means, covariances, opacities, colors, views, cameras = tensors
    size = (scene.width, scene.height)
    radii, centers, depths, conics, factors = _fully_fused_projection(
        means, covariances, views, cameras, *size, **options
    )
    opacities = opacities if factors is None else opacities * factors[0]
    colors = torch.cat((colors, depths[0][:, None]), dim=-1) if has_depths else colors
    flat = torch.cat((centers[0], conics[0], opacities[:, None], colors), dim=-1)
    flat = torch.nn.functional.pad(flat, (0, 0, 0, 1))

    across, down = (-(-length // TILE) for length in size)
    most = torch.tensor((across, down), device=means.device)
    first = ((centers[0] - radii[0]) / TILE).floor().long().clamp(min=0).minimum(most)
    after = ((centers[0] + radii[0]) / TILE).ceil().long().clamp(min=0).minimum(most)
    spans = (after - first) * (radii[0] > 0).all(-1, keepdim=True)

    # One row for each tile of each Gaussian, from front to back.
    order = depths[0].argsort(stable=True)
    tiles = spans[order].prod(-1)
    rows = order.repeat_interleave(tiles)
    at = torch.arange(len(rows), device=means.device)
    at -= (tiles.cumsum(0) - tiles).repeat_interleave(tiles)
    x, y = first[rows, 0] + at % spans[rows, 0], first[rows, 1] + at // spans[rows, 0]
    tile = y * across + x
    counts = tile.bincount(minlength=across * down)
    return Projected(
        flat=flat,
        seen=torch.nn.functional.pad(rows[tile.argsort(stable=True)], (0, 1), value=len(flat) - 1),
        starts=counts.cumsum(0) - counts,
        counts=counts,
    )


def groups(found: Projected, scene: Scene) -> Iterator[tuple[torch.Tensor, Inputs]]:
    """Tiles to compose together: rows of `flat` for each, and their pixels' x and y.

    Tiles of about as many Gaussians are together; shorter ones end in the row that draws nothing.
    """
    device = found.flat.device
    across = -(-scene.width // TILE)
    y, x = (at.flatten() for at in torch.meshgrid(*2 * (torch.arange(TILE, device=device),)))
    for tiles in found.counts.argsort().split(TOGETHER):
        counts = found.counts[tiles, None]
        at = torch.arange(int(counts.max()) + 1, device=device)
        places = (found.starts[tiles, None] + at).clamp(max=len(found.seen) - 1)
        rows = torch.where(at < counts, found.seen[places], len(found.flat) - 1)
        left, top = tiles % across * TILE, tiles // across * TILE
        yield rows, (left[:, None] + x, top[:, None] + y)


def compose(rows: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Colors and opacity of pixels, front to back: tiles, Gaussians and tiles, pixels."""
    center_x, center_y, a, b, c, opacities = rows[:, None, :, :6].unbind(-1)
    dx, dy = center_x - x[..., None] - 0.5, center_y - y[..., None] - 0.5
    power = 0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy
    alpha = (opacities * torch.exp(-power)).clamp(max=MOST_ALPHA)
    alpha = torch.where((power >= 0) & (alpha >= LEAST_ALPHA), alpha, 0)
    after = (1 - alpha).cumprod(-1)
    before = torch.nn.functional.pad(after[..., :-1], (1, 0), value=1)
    weights = torch.where(after > LEAST_LEFT, alpha * before, 0)
    colors = rows[..., 6:]
    is_bad = colors.isnan()
    picture = weights @ colors.masked_fill(is_bad, 0)
    if is_bad.any():  # of those that are drawn
        seen = (weights > 0).to(colors.dtype) @ is_bad.to(colors.dtype)
        picture = picture.masked_fill(seen > 0, torch.nan)
    return torch.cat((picture, weights.sum(-1, keepdim=True)), dim=-1)


def exact_forward(*tensors: torch.Tensor, scene: Scene) -> Inputs:
    """The picture by its definition, in float64."""
    found = project(*(tensor.double() for tensor in tensors[:7]), scene=scene)
    picture = drawn(found, scene)[None]
    return picture[..., :3], picture[..., 3:]


def drawn(found: Projected, scene: Scene) -> torch.Tensor:
    """Colors and opacity of all pixels."""
    shape = (scene.height + TILE, scene.width + TILE, found.flat.shape[-1] - 5)
    whole = found.flat.new_zeros(shape)
    for rows, (x, y) in groups(found, scene):
        whole[y, x] = compose(found.flat[rows], x, y)
    return whole[: scene.height, : scene.width]


def exact_backward(*tensors: torch.Tensor, scene: Scene) -> Inputs:
    """The gradients of the definition, in float64, some tiles after others."""
    leaves = [tensor.double().requires_grad_() for tensor in tensors[:LEARNED]]
    found = project(*leaves, *(tensor.double() for tensor in tensors[LEARNED:7]), scene=scene)
    ahead = torch.cat(tensors[-2:], dim=-1)[0].double()
    ahead = torch.nn.functional.pad(ahead, (0, 0, 0, TILE, 0, TILE))  # pixels beyond the picture
    to_flat = torch.zeros_like(found.flat)
    for rows, (x, y) in groups(found, scene):
        drawn = found.flat.detach()[rows].requires_grad_()
        [to_rows] = torch.autograd.grad(compose(drawn, x, y), drawn, ahead[y, x])
        to_flat.index_put_((rows,), to_rows, accumulate=True)
    return torch.autograd.grad(found.flat, leaves, to_flat)


def scene_cases(scene: Scene, *, packed: bool) -> list[Case]:
    """A picture, and one with its gradients."""
    size = f"fp32 {scene.count} Gaussians, {scene.width}x{scene.height}"
    name = f"{size}{', packed' if packed else ''}"
    is_large = scene == LARGE
    return [
        Case(
            name=f"forward {name}",
            inputs=partial(inputs, scene),
            call=partial(forward, scene=scene, packed=packed),
            expected=partial(exact_forward, scene=scene),
            limit=LIMIT,
            block_factor=10.0,
            block_reason=EDGES,
            is_timed=is_large,
            memory=4 << 30 if is_large else 1 << 30,
        ),
        Case(
            name=f"forward and backward {name}",
            inputs=partial(inputs, scene),
            call=partial(backward, scene=scene, packed=packed),
            expected=partial(exact_backward, scene=scene),
            limit=GRADIENT_LIMIT,
            block_factor=45.0,
            block_reason=EDGES,
            is_timed=is_large,
            memory=8 << 30 if is_large else 1 << 30,
        ),
    ]


# The grids: options of `rasterization`, in pairs, and functions that can be called by themselves.

Row = dict[str, Any]
PICTURES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "backward"),
    "packed": (True, False),
    "mode": ("RGB", "D", "ED", "RGB+D", "RGB+ED"),
    "colors": (3, 6, 33, "degree 1", "degree 3"),  # 32 are drawn at once
    "of": ("Gaussian", "Gaussian and camera"),
    "camera": ("pinhole", "ortho", "fisheye"),
    "cameras": (1, 2),
    "mask": ("classic", "antialiased"),
    "shape": ("quaternions", "covariances"),
    "count": (200, 1),
    "size": ((96, 64), (49, 33)),
    "background": (False, True),
    "planes": ((0.01, 1e10), (4.4, 5.6)),
    "eps2d": (0.3, 1.0),
    "sorted": ("at once", "by segments"),
    "sparse": (False, True),
    "values": ("normal", "large", "special"),
    "stream": ("current", "second"),
}
BASES = 16  # coefficients of each color; a degree of 3 uses all
# Few pixels, of which one may be at a threshold.
GRID_LIMIT, GRID_GRADIENT_LIMIT = 5e-4, 5e-3


def exists(row: Row) -> bool:
    """Leave out options without effect, and NaN in gradients, which spreads to all."""
    if row["sparse"] and not (row["packed"] and row["what"] == "backward"):
        return False
    # PyTorch can't pass a sparse gradient on through the upper halves that are taken of matrices.
    if row["sparse"] and row["shape"] == "covariances":
        return False
    # rasterize_to_pixels wants one background for all cameras then, and gets one for each.
    if row["packed"] and row["background"]:
        return False
    if row["mode"] in {"D", "ED"} and row["background"]:
        return False  # zeros take its place
    return row["values"] != "special" or row["what"] == "forward"


def channels_of(row: Row) -> int:
    """Numbers of each pixel."""
    colors = row["colors"] if isinstance(row["colors"], int) else 3
    return {"RGB": colors, "D": 1, "ED": 1}.get(row["mode"], colors + 1)


def grid_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Learned values (some None), cameras, gradients of picture and opacity."""
    width, height = row["size"]
    scene = Scene(count=row["count"], width=width, height=height, size=0.4)
    means, quats, scales, opacities, _, view, camera, *_ = inputs(scene, seed)
    if row["count"] == 1:
        means[:, :2] *= 0.2  # it is seen
    draw = random_of(seed, DEVICE)
    count, cameras = row["count"], row["cameras"]
    leading = (cameras, count) if row["of"] == "Gaussian and camera" else (count,)
    is_harmonic = not isinstance(row["colors"], int)
    colors = draw(*leading, *((BASES, 3) if is_harmonic else (row["colors"],)))
    if row["values"] == "large":
        colors *= 1e4
    if row["values"] == "special":
        colors[..., count // 2, 0, 0 if is_harmonic else ...] = torch.nan
    covariances = None
    if row["shape"] == "covariances":
        covariances, _ = _quat_scale_to_covar_preci(quats, scales, compute_preci=False)
        quats = scales = None
    turn = torch.tensor(0.2, device=DEVICE)
    other = torch.eye(4, device=DEVICE)
    other[0, 0] = other[2, 2] = turn.cos()
    other[0, 2], other[2, 0] = turn.sin(), -turn.sin()
    other[:3, 3] = torch.tensor([0.0, 0.1, 5.0], device=DEVICE) - other[:3, 2] * 5
    if row["camera"] == "ortho":
        camera = camera.clone()
        camera[:, 0, 0] = camera[:, 1, 1] = width / 4  # pixels of a unit, not of an angle
    x = channels_of(row)
    return (
        *(means, quats, scales, opacities, colors, torch.stack((view[0], other))[:cameras]),
        draw(cameras, x) if row["background"] else None,
        covariances,
        camera.expand(cameras, -1, -1).contiguous(),
        *(draw(cameras, height, width, x), draw(cameras, height, width, 1)),
    )


def degree_of(row: Row) -> int | None:
    """The degree of spherical harmonics; None: colors are given."""
    return None if isinstance(row["colors"], int) else int(row["colors"].split()[1])


def package(row: Row, camera: torch.Tensor, *learned: Any) -> Inputs:
    """Picture and opacity by the package."""
    means, quats, scales, opacities, colors, views, background, covariances = learned
    width, height = row["size"]
    near, far = row["planes"]
    if background is not None and row["mode"].startswith("RGB+"):
        background = background[:, :-1]  # the package adds the depth's, zero
    colors, opacity, _ = gsplat.rasterization(
        *(means, quats, scales, opacities, colors, views, camera, width, height),
        near_plane=near,
        far_plane=far,
        eps2d=row["eps2d"],
        sh_degree=degree_of(row),
        packed=row["packed"],
        backgrounds=background,
        render_mode=row["mode"],
        sparse_grad=row["sparse"],
        rasterize_mode=row["mask"],
        camera_model=row["camera"],
        segmented=row["sorted"] == "by segments",
        covars=covariances,
    )
    return colors, opacity


def exact(row: Row, cameras: torch.Tensor, *learned: Any) -> Inputs:
    """The same by the definition, one camera after another."""
    pictures = [exact_picture(row, at, cameras, *learned) for at in range(row["cameras"])]
    whole = torch.stack(pictures)
    picture, opacity = whole[..., :-1], whole[..., -1:]
    background = learned[6]
    if background is not None:
        if row["mode"].startswith("RGB+"):
            background = torch.nn.functional.pad(background[:, :-1], (0, 1))
        picture = picture + (1 - opacity) * background[:, None, None]
    if "ED" in row["mode"]:
        depth = picture[..., -1:] / opacity.clamp(min=1e-10)
        picture = torch.cat((picture[..., :-1], depth), dim=-1)
    return picture, opacity


def exact_picture(row: Row, at: int, cameras: torch.Tensor, *learned: Any) -> torch.Tensor:
    """What one camera sees: colors, perhaps the depth, opacity."""
    means, quats, scales, opacities, colors, views, _, covariances = learned
    if covariances is None:
        covariances, _ = _quat_scale_to_covar_preci(quats, scales, compute_preci=False)
    else:  # the package reads the upper half
        upper = covariances.triu()
        covariances = upper + upper.triu(1).transpose(-1, -2)
    colors = colors[at] if row["of"] == "Gaussian and camera" else colors
    if (degree := degree_of(row)) is not None:
        rays = means - torch.inverse(views)[at, :3, 3]
        colors = (_spherical_harmonics(degree, rays, colors) + 0.5).clamp(min=0)
    if row["mode"] in {"D", "ED"}:
        colors = colors[:, :0]
    scene = Scene(count=row["count"], width=row["size"][0], height=row["size"][1], size=0)
    near, far = row["planes"]
    found = project_with(
        *(means, covariances, opacities, colors, views[at : at + 1], cameras[at : at + 1]),
        scene=scene,
        has_depths="D" in row["mode"],
        eps2d=row["eps2d"],
        near_plane=near,
        far_plane=far,
        calc_compensations=row["mask"] == "antialiased",
        camera_model=row["camera"],
    )
    return drawn(found, scene)


def outputs(function: Callable[..., Any], row: Row, *values: Any) -> Inputs:
    """Picture and opacity, or gradients of all that is learned."""
    *learned, camera, to_picture, to_opacity = values
    if row["what"] == "forward":
        found: Inputs = function(row, camera, *learned)
        return found
    gradients = gradients_of(partial(function, row, camera), learned, (to_picture, to_opacity))
    return tuple(one.to_dense() if one.is_sparse else one for one in gradients)


def picture_case(row: Row) -> Case:
    """A picture, or gradients."""
    is_forward = row["what"] == "forward"
    return case_of(
        row,
        grid_inputs,
        partial(outputs, package),
        partial(exactly, partial(outputs, exact)),
        label="picture",
        joined={"size": "x", "planes": "-"},
        limit=GRID_LIMIT if is_forward else GRID_GRADIENT_LIMIT,
        block_factor=10.0,
        block_reason=EDGES,
        is_special=row["values"] == "special",
        same_bits=is_forward,  # gradients are added by atomics
        memory=1 << 30,
    )


PARTS: dict[str, tuple[Any, ...]] = {
    "part": (
        *("covariances", "upper covariances", "pinhole", "ortho", "fisheye"),
        *("degree 0", "degree 1", "degree 2", "degree 3", "degree 4", "Adam", "relocation"),
    ),
    "what": ("forward", "backward"),
    "count": (1000, 1),
    "layout": ("rows", "every second"),
    "stream": ("current", "second"),
}
CAMERAS = {"pinhole": _persp_proj, "ortho": _ortho_proj, "fisheye": _fisheye_proj}
MOST = 20  # copies of a Gaussian; sums of alternating terms lose float32's digits with more
# Single precision with fast square roots; gradients of projections are sums of products.
PART_UNITS = {"forward": 64.0, "backward": 512.0}
SIZE, RATE, BETAS, EPSILON = (96, 64), 1e-3, (0.9, 0.999), 1e-8


def has_part(row: Row) -> bool:
    """Optimizer and relocation have no gradients, and take rows without gaps."""
    is_last = row["part"] in {"Adam", "relocation"}
    return not is_last or (row["what"] == "forward" and row["layout"] == "rows")


def part_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Arguments of a part, and gradients of its outputs."""
    draw = random_of(seed, DEVICE)
    count = row["count"]

    def laid_out(values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(2, 0)[::2] if row["layout"] != "rows" else values

    if "covariances" in row["part"]:
        shape = (count, 6) if "upper" in row["part"] else (count, 3, 3)
        given = draw(count, 4), 0.2 + draw(count, 3).abs()
        return *map(laid_out, given), draw(*shape), draw(*shape)
    if row["part"] in CAMERAS:
        means = draw(2, count, 3)
        means[..., 2] = 5 + means[..., 2].clamp(-2, 2)
        factors = 0.3 * draw(2, count, 3, 3)
        camera = torch.tensor([[90.0, 0, 48], [0, 80, 32], [0, 0, 1]], device=DEVICE)
        covariances = factors @ factors.transpose(-1, -2)
        gradients = draw(2, count, 2), draw(2, count, 2, 2)
        return *map(laid_out, (means, covariances, camera.repeat(2, 1, 1))), *gradients
    if "degree" in row["part"]:
        is_seen = draw(count) > -1
        return *map(laid_out, (draw(count, 3), draw(count, 25, 3))), is_seen, draw(count, 3)
    if row["part"] == "Adam":
        return draw(count, 7) * RATE, draw(count, 7), draw(count, 7), draw(count) > -1
    copies = torch.arange(count, device=DEVICE) % MOST + 1
    table = [[comb(n, k) if k <= n else 0 for k in range(MOST)] for n in range(MOST)]
    binomials = torch.tensor(table, device=DEVICE, dtype=torch.float32)
    opacities = 0.05 + 0.8 * torch.sigmoid(draw(count))
    return opacities, draw(count, 3).abs(), copies, binomials


def package_part(row: Row, *values: Any) -> Any:
    """A part by the package."""
    part = row["part"]
    if "covariances" in part:
        return gsplat.quat_scale_to_covar_preci(*values, triu="upper" in part)
    if part in CAMERAS:
        return gsplat.proj(*values, *SIZE, camera_model=part)
    if "degree" in part:
        found = gsplat.spherical_harmonics(int(part.split()[1]), *values)
        return torch.where(values[2][:, None], found, 0)  # others are left as memory was
    if part == "Adam":
        weights, *gradients, is_seen = values
        leaf = torch.nn.Parameter(weights.clone())
        optimizer = gsplat.SelectiveAdam([leaf], EPSILON, BETAS)
        for gradient in gradients:
            leaf.grad = gradient.clone()
            optimizer.step(is_seen)
        state = optimizer.state[leaf]
        return leaf.detach() - weights, state["exp_avg"], state["exp_avg_sq"]
    opacities, scales, copies, binomials = values
    return compute_relocation(opacities, scales, copies.clone(), binomials)


def exact_part(row: Row, *values: Any) -> Any:
    """A part by its definition."""
    part = row["part"]
    if "covariances" in part:
        return _quat_scale_to_covar_preci(*values, triu="upper" in part)
    if part in CAMERAS:
        return CAMERAS[part](*values, *SIZE)
    if "degree" in part:
        found = _spherical_harmonics(int(part.split()[1]), *values[:2])
        return torch.where(values[2][:, None], found, 0)
    return exact_adam(*values) if part == "Adam" else exact_relocation(*values)


def exact_adam(weights: torch.Tensor, *values: torch.Tensor) -> Inputs:
    """Changes and moments of those that are seen; this optimizer corrects no bias."""
    *gradients, is_seen = values
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    change = torch.zeros_like(weights)
    # As the kernel has them: 1 - 0.999 loses four digits in float32.
    b1, b2 = torch.tensor(BETAS, dtype=torch.float32).tolist()
    for gradient in gradients:
        first = b1 * first + (1 - b1) * gradient
        second = b2 * second + (1 - b2) * gradient**2
        change = change - RATE * first / (second.sqrt() + EPSILON)
    return tuple(torch.where(is_seen[:, None], one, 0) for one in (change, first, second))


def exact_relocation(*values: torch.Tensor) -> Inputs:
    """Opacities and scales of so many copies, https://arxiv.org/abs/2404.09591, equation 9."""
    opacities, scales, copies, binomials = values
    after = 1 - (1 - opacities) ** (1 / copies)
    total = torch.zeros_like(after)
    for n in range(MOST):
        terms = [
            binomials[n, k] * (-1) ** k / (k + 1) ** 0.5 * after ** (k + 1) for k in range(n + 1)
        ]
        total = total + torch.where(n < copies, sum(terms), 0)
    return after, (opacities / total)[:, None] * scales


def part_outputs(function: Callable[..., Any], row: Row, *values: Any) -> Any:
    """Outputs of a part, or gradients of its arguments."""
    if row["part"] in {"Adam", "relocation"}:
        return function(row, *values)
    ahead = values[-1:] if "degree" in row["part"] else values[-2:]
    given = values[: -len(ahead)]
    if row["what"] == "forward":
        return function(row, *given)
    last = () if "degree" in row["part"] else given[2:]  # cameras have no gradients
    learned = given[: len(given) - len(last)]
    return gradients_of(lambda *some: function(row, *some, *last), learned, ahead)


def part_case(row: Row) -> Case:
    """One of the functions that can be called by themselves."""
    is_relocated = row["part"] == "relocation"  # powers and alternating sums in float32
    return case_of(
        row,
        part_inputs,
        partial(part_outputs, package_part),
        partial(exactly, partial(part_outputs, exact_part)),
        label="part",
        limit=LIMIT if is_relocated else 1e-5,
        units=None if is_relocated else PART_UNITS[row["what"]],
        is_uniform=row["count"] == 1,
        # Three colors add to the gradient of a ray by atomics.
        same_bits=not (row["what"] == "backward" and "degree" in row["part"]),
        memory=1 << 24,
    )


GRIDS = ((PICTURES, exists, picture_case), (PARTS, has_part, part_case))


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure; packed is the package's default."""
    return [
        *scene_cases(SMALL, packed=False),
        *scene_cases(SMALL, packed=True),
        *scene_cases(LARGE, packed=True),
        *cases_of(*GRIDS),
    ]
