"""tiny-skbuild: numbers multiplied on the GPU, in float and double."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import tiny_skbuild
from grid import name_of, pairwise
from perf_case import Case

PACKAGE, FRAMEWORK = "tiny_skbuild", "host"
AXES: dict[str, tuple[Any, ...]] = {
    "kind": ("float32", "float64"),
    "count": (100_003, 1, 127, 128, 129),
    "values": ("normal", "large", "special"),
    "factor": (1.7, -1.0, 0.1),
}


def inputs(row: dict[str, Any], seed: int) -> tuple[Any, ...]:
    """Numbers of the row's kind."""
    values = np.random.default_rng(seed).standard_normal(row["count"]).astype(row["kind"])
    if row["values"] == "large":
        values *= 1e38 if row["kind"] == "float32" else 1e300
        values = values.clip(-1e38, 1e38) if row["kind"] == "float32" else values
    if row["values"] == "special":
        values[:3] = (np.nan, np.inf, -np.inf)[: len(values)]
    return (values,)


def scaled(row: dict[str, Any], values: Any) -> Any:
    """The package's product."""
    values = values.copy()
    is_single = row["kind"] == "float32"
    library = tiny_skbuild._LIBRARY
    function = library.tiny_scale_float if is_single else library.tiny_scale_double
    factor = ctypes.c_float(row["factor"]) if is_single else ctypes.c_double(row["factor"])
    status = function(values.ctypes.data_as(ctypes.c_void_p), len(values), factor)
    if status:
        raise RuntimeError(f"CUDA error {status}")
    return values


def exact(row: dict[str, Any], values: Any) -> Any:
    """numpy's, in extended precision."""
    factor = np.dtype(row["kind"]).type(row["factor"])
    return (values.astype(np.longdouble) * factor).astype(np.float64)


def grid_case(row: dict[str, Any]) -> Case:
    """Each product is rounded once."""
    return Case(
        name=name_of(row),
        inputs=functools.partial(inputs, row),
        call=functools.partial(scaled, row),
        expected=functools.partial(exact, row),
        limit=1e-6 if row["kind"] == "float32" else 1e-15,
        units=1.0,
        is_special=row["values"] == "special",
        same_bits=True,
        is_grid=True,
        is_timed=False,
    )


GRIDS = ((AXES, lambda _: True, grid_case),)


def cases() -> list[Case]:
    """The grid, and a large array to be timed."""
    row = {"kind": "float32", "count": 1 << 24, "values": "normal", "factor": 1.7}
    large = Case(
        name="float32 2^24",
        inputs=functools.partial(inputs, row),
        call=functools.partial(scaled, row),
        expected=functools.partial(exact, row),
        limit=1e-6,
        memory=1 << 28,
    )
    return [large, *map(grid_case, pairwise(AXES))]
