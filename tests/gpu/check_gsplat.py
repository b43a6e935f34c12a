"""Check an installed gsplat wheel on a GPU against its definition; prints one JSON object.

Run by hand on a machine with a GPU: `python tests/gpu/check_gsplat.py`. It needs PyTorch, the wheel
and what that requires. Results are recorded in docs/results.md.

A picture of random Gaussians is compared with one composed pixel by pixel in float64 from the
projected Gaussians, and their projection with gsplat's own reference in PyTorch.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import gsplat
import torch
from gsplat.cuda._torch_impl import _fully_fused_projection

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT, SIZE = 400, 128  # Gaussians, pixels along either side: checked
MANY, LARGE = 1_000_000, 1920  # measured
WARM_UP, TIMED = 5, 30  # calls
LEAST_ALPHA, MOST_ALPHA, LEAST_LEFT = 1 / 255, 0.999, 1e-4  # as the kernel has them
LIMIT = 1e-4  # relative error in float32


def make_scene(count: int, size: int) -> dict[str, torch.Tensor]:
    """Random Gaussians before a camera."""
    torch.manual_seed(0)
    means = torch.rand(count, 3, device="cuda") * 4 - 2
    means[:, 2] += 5
    quats = torch.nn.functional.normalize(torch.randn(count, 4, device="cuda"), dim=-1)
    focal = float(size)
    camera = [[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1]]
    return {
        "means": means,
        "quats": quats,
        "scales": torch.rand(count, 3, device="cuda") * (0.3 if count < MANY else 0.01) + 0.005,
        "opacities": torch.rand(count, device="cuda"),
        "colors": torch.rand(count, 3, device="cuda"),
        "viewmats": torch.eye(4, device="cuda")[None],
        "Ks": torch.tensor(camera, device="cuda")[None],
    }


def compose(scene: dict[str, torch.Tensor], seen: dict[str, torch.Tensor]) -> torch.Tensor:
    """The picture by its definition: front to back, in float64."""
    order = seen["depths"][0].argsort()
    order = order[(seen["radii"][0, order] > 0).all(-1)]
    centers, conics = seen["means2d"][0, order].double(), seen["conics"][0, order].double()
    opacities, colors = scene["opacities"][order].double(), scene["colors"][order].double()
    at = torch.arange(SIZE, device="cuda", dtype=torch.float64) + 0.5
    y, x = torch.meshgrid(at, at, indexing="ij")
    picture = torch.zeros(SIZE, SIZE, 3, device="cuda", dtype=torch.float64)
    left = torch.ones(SIZE, SIZE, device="cuda", dtype=torch.float64)
    open_ = torch.ones_like(left, dtype=torch.bool)
    for center, conic, opacity, color in zip(centers, conics, opacities, colors, strict=True):
        dx, dy = center[0] - x, center[1] - y
        power = 0.5 * (conic[0] * dx * dx + conic[2] * dy * dy) + conic[1] * dx * dy
        alpha = (opacity * torch.exp(-power)).clamp(max=MOST_ALPHA)
        counts = open_ & (power >= 0) & (alpha >= LEAST_ALPHA)
        after = left * (1 - alpha)
        open_ &= ~(counts & (after <= LEAST_LEFT))
        counts &= open_
        picture += torch.where(counts, left * alpha, 0)[..., None] * color
        left = torch.where(counts, after, left)
    return picture


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of what is expected."""
    return float((actual.double() - expected.double()).norm() / expected.double().norm())


def check() -> dict[str, float]:
    """Relative errors of the picture and of the projected Gaussians."""
    scene = make_scene(COUNT, SIZE)
    with torch.no_grad():
        picture, _, seen = gsplat.rasterization(**scene, width=SIZE, height=SIZE, packed=False)
        covars, _ = gsplat.quat_scale_to_covar_preci(
            scene["quats"], scene["scales"], compute_preci=False
        )
        _, means, depths, conics, _ = _fully_fused_projection(
            scene["means"], covars, scene["viewmats"], scene["Ks"], SIZE, SIZE
        )
    drawn = (seen["radii"] > 0).all(-1)
    return {
        "picture": relative_error(picture[0], compose(scene, seen)),
        "centers": relative_error(seen["means2d"][drawn], means[drawn]),
        "depths": relative_error(seen["depths"][drawn], depths[drawn]),
        "conics": relative_error(seen["conics"][drawn], conics[drawn]),
    }


def milliseconds(function: Callable[[], object]) -> float:
    """Mean time of a call on the GPU, by CUDA events."""
    for _ in range(WARM_UP):
        function()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(TIMED):
        function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / TIMED


def measure() -> dict[str, float]:
    """Milliseconds of a large picture, and of it with its gradients."""
    scene = make_scene(MANY, LARGE)
    learned = [scene[name].requires_grad_() for name in ("means", "quats", "scales", "opacities")]

    def draw() -> torch.Tensor:
        picture: torch.Tensor = gsplat.rasterization(**scene, width=LARGE, height=LARGE)[0]
        return picture

    with torch.no_grad():
        forward = milliseconds(draw)
    both = milliseconds(lambda: torch.autograd.grad(draw().sum(), learned))
    return {"forward ms": forward, "forward and backward ms": both}


def main() -> int:
    """Print the findings; 1 when an error is over the limit."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True)
    errors = check()
    print(  # noqa: T201 - the answer
        json.dumps(
            {
                "date": str(datetime.date.today()),  # noqa: DTZ011 - the machine's own day
                "gpu": torch.cuda.get_device_name(),
                "driver": driver.stdout.strip(),
                "python": sys.version.split()[0],
                "torch": torch.__version__,
                "gsplat": gsplat.__version__,
                "file": gsplat.__file__,
                "relative errors": errors,
                "times": measure(),
            },
            indent=2,
        )
    )
    return int(max(errors.values()) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
