"""gpuNUFFT's transforms between an image and samples anywhere, against their sums in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from gpuNUFFT import NUFFTOp
from grid import case_of, cases_of, large_case, usual

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from perf_case import Case

    Array = NDArray[Any]

PACKAGE = "gpuNUFFT"
FRAMEWORK = "host"
UNTOUCHED = (
    "pointers to the GPU's memory, Toeplitz kernels, gradients; get_spectral_radius",
    "estimate_density_comp; set_smaps and set_pts, which do what the constructor does",
    "images whose oversampled axes aren't multiples of the sector's width; NaN, infinities",
    "a second stream: calls wait for their own",
)
# Of the kernel's width, at twice the samples. On an H200: 1.4e-2 and 1.7e-3 of the first two.
LIMITS = {3: 3e-2, 5: 5e-3, 7: 2e-3}
COARSER = 3.0  # times that at 1.5 times the samples

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("op", "adj_op"),
    "image": ((32, 32), (16, 48), (64, 16), (16, 32, 48)),
    "points": (500, 1, 33, 3000),
    "width": (3, 5, 7),
    "sector": (8, 4),
    "samples": (2.0, 1.5),
    "balanced": (True, False),
    "coils": (1, 3),
    "maps": (False, True),
    "weights": ("none", "random"),
    "places": ("anywhere", "grid"),
}


def exists(row: Row) -> bool:
    """Return False for weights of a single sample, which the package leaves out."""
    return bool(row["points"] > 1 or row["weights"] == "none")


def inputs(row: Row, seed: int) -> tuple[Array, ...]:
    """Return places of samples, images or samples of each coil, maps and weights."""
    random = np.random.default_rng(seed)
    image, count, coils = row["image"], row["points"], row["coils"]
    places: Array = np.asarray(random.uniform(-0.5, 0.5, (len(image), count)))
    if row["places"] == "grid":
        sizes = np.array(image)[:, None]
        places = np.round(places * sizes) / sizes
        places[places == 0.5] = -0.5

    def drawn(*shape: int) -> Array:
        real, imaginary = random.standard_normal((2, *shape)).astype("float32")
        return np.asarray(real + 1j * imaginary)

    if row["what"] == "adj_op":
        values = drawn(coils, count)
    else:
        values = drawn(1 if row["maps"] else coils, *image)
    weights: Array = np.asarray(random.uniform(0.5, 2, count), "float32")
    return np.asarray(places, "float32"), values, drawn(coils, *image), weights


def flat(images: Array) -> Array:
    """Return images in the package's order of memory: the first axis is the nearest."""
    return np.ascontiguousarray(images.reshape(len(images), -1, order="F"))


def call(row: Row, places: Array, values: Array, maps: Array, weights: Array) -> Array:
    """Return samples of an image, or images of samples; an operator is made in each call."""
    more: dict[str, Any] = {}
    if row["maps"]:
        more["sense_maps"] = flat(maps)
    if row["weights"] != "none":
        more["density_comp"] = weights
    operator = NUFFTOp(
        places,
        np.array(row["image"], "int32"),
        row["coils"],
        kernel_width=row["width"],
        sector_width=row["sector"],
        osr=row["samples"],
        balance_workload=row["balanced"],
        **more,
    )
    if row["what"] == "op":
        samples = np.zeros((row["coils"], row["points"]), "complex64")
        return np.array(operator.op(flat(values), samples))
    count = 1 if row["maps"] else row["coils"]
    images = np.zeros((count, math.prod(row["image"])), "complex64")
    found = np.array(operator.adj_op(values, images))
    return found.reshape(count, *row["image"][::-1]).transpose(0, *range(len(row["image"]), 0, -1))


def waves(row: Row, places: Array) -> list[Array]:
    """Return what each axis adds to the phase: of samples and elements."""
    return [
        np.exp(-2j * np.pi * np.outer(place.astype(float), np.arange(size) - size // 2))
        for place, size in zip(places, row["image"], strict=True)
    ]


def expected(row: Row, places: Array, values: Array, maps: Array, weights: Array) -> Array:
    """Return the same by the definition; both directions are divided by one factor."""
    axes = waves(row, places)
    scale = (math.prod(row["image"]) * row["samples"] ** len(axes)) ** -0.5
    letters = "xyz"[: len(axes)]
    parts = ",".join(f"n{letter}" for letter in letters)
    exact = values.astype("complex128")
    if row["what"] == "op":
        images = exact * maps if row["maps"] else exact
        found = np.einsum(f"c{letters},{parts}->cn", images, *axes, optimize=True)
        return np.asarray(scale * found)
    exact = exact if row["weights"] == "none" else exact * weights
    conjugated = [axis.conj() for axis in axes]
    found = scale * np.einsum(f"cn,{parts}->c{letters}", exact, *conjugated, optimize=True)
    return np.asarray((found * maps.conj()).sum(0, keepdims=True) if row["maps"] else found)


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        call,
        expected,
        joined={"image": "x"},
        limit=LIMITS[row["width"]] * (1 if row["samples"] == 2 else COARSER),
        block_factor=8.0,
        block_reason="sums cancel out where their result is small",
        memory=1 << 28,
    )


def timed_case(what: str) -> Case:
    """Return a large image of one coil."""
    return large_case(
        f"{what} 64x64x48, 2^12 samples",
        usual(AXES, what=what, image=(64, 64, 48), points=1 << 12),
        *(inputs, call, expected),
        limit=LIMITS[AXES["width"][0]],
        block_factor=8.0,
        block_reason="sums cancel out where their result is small",
        memory=1 << 31,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [timed_case("op"), timed_case("adj_op"), *cases_of(*GRIDS)]
