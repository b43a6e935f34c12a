"""gsplat's rasterization against a picture composed pixel by pixel: forward, and with gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import gsplat
import torch
from gsplat.cuda._torch_impl import _fully_fused_projection, _quat_scale_to_covar_preci
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "gsplat"
FRAMEWORK = "torch"
OWN_SHARE = 0.4  # an H100 had 0.6 at least

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
    generator = torch.Generator("cuda").manual_seed(seed)
    even = partial(torch.rand, device="cuda", generator=generator)
    normal = partial(torch.randn, device="cuda", generator=generator)
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
        torch.eye(4, device="cuda")[None],
        torch.tensor(camera, device="cuda")[None],
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
    size = (scene.width, scene.height)
    radii, centers, depths, conics, _ = _fully_fused_projection(
        means, covariances, views, cameras, *size
    )
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
        seen=rows[tile.argsort(stable=True)],
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
    return torch.cat((weights @ rows[..., 6:], weights.sum(-1, keepdim=True)), dim=-1)


def exact_forward(*tensors: torch.Tensor, scene: Scene) -> Inputs:
    """The picture by its definition, in float64."""
    found = project(*(tensor.double() for tensor in tensors[:7]), scene=scene)
    whole = found.flat.new_zeros(scene.height + TILE, scene.width + TILE, 4)
    for rows, (x, y) in groups(found, scene):
        whole[y, x] = compose(found.flat[rows], x, y)
    picture = whole[None, : scene.height, : scene.width]
    return picture[..., :3], picture[..., 3:]


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


def cases_of(scene: Scene, *, packed: bool) -> list[Case]:
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


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure; packed is the package's default."""
    return [
        *cases_of(SMALL, packed=False),
        *cases_of(SMALL, packed=True),
        *cases_of(LARGE, packed=True),
    ]
