"""The stand-in for bitsandbytes: 8-bit codes times a scale, by ctypes."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import bitsandbytes
import numpy as np
from grid import name_of, pairwise
from perf_case import Case

PACKAGE, FRAMEWORK = "bitsandbytes", "host"
AXES: dict[str, tuple[Any, ...]] = {
    "count": (100_003, 1, 127, 128, 129, 4096),
    "scale": (0.123456789, 1.0, 3e38, 1e-30, float("inf")),
    "codes": ("any", "positive"),
}


def inputs(row: dict[str, Any], seed: int) -> tuple[Any, ...]:
    """Codes of 8 bits."""
    least = 1 if row["codes"] == "positive" else -127
    return (np.random.default_rng(seed).integers(least, 128, row["count"], dtype=np.int8),)


def dequantized(row: dict[str, Any], codes: Any) -> Any:
    """The package's product."""
    to = np.full(len(codes), np.nan, dtype=np.float32)
    status = bitsandbytes.library.dequantize_on_device(
        codes.ctypes.data_as(ctypes.c_void_p),
        to.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_float(row["scale"]),
        len(codes),
    )
    if status:
        raise RuntimeError(f"CUDA error {status}")
    return to


def exact(row: dict[str, Any], codes: Any) -> Any:
    """numpy's; what is too large for float32 is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        whole = codes.astype(np.float64) * np.float64(np.float32(row["scale"]))
        return np.where(np.isfinite(whole.astype(np.float32)), whole, whole.astype(np.float32))


def grid_case(row: dict[str, Any]) -> Case:
    """Each product is rounded once."""
    return Case(
        name=name_of(row),
        inputs=functools.partial(inputs, row),
        call=functools.partial(dequantized, row),
        expected=functools.partial(exact, row),
        limit=1e-6,
        units=1.0,
        is_special=row["scale"] > 1,
        is_uniform=True,  # of 255 codes
        same_bits=True,
        is_grid=True,
        is_timed=False,
    )


GRIDS = ((AXES, lambda _: True, grid_case),)


def cases() -> list[Case]:
    """The grid, and a large array to be timed."""
    row = {"count": 1 << 24, "scale": 0.123456789, "codes": "any"}
    large = Case(
        name="2^24 codes",
        inputs=functools.partial(inputs, row),
        call=functools.partial(dequantized, row),
        expected=functools.partial(exact, row),
        limit=1e-6,
        memory=1 << 28,
    )
    return [large, *map(grid_case, pairwise(AXES))]
