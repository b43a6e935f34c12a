"""pyvkfft's transforms of CuPy's arrays against numpy's and definitions, in double precision."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from grid import case_of, cases_of, large_case, usual
from pyvkfft import fft

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from perf_case import Case

    Array = NDArray[Any]

PACKAGE = "pyvkfft"
FRAMEWORK = "host"
UNTOUCHED = (
    "half precision; arrays of PyCUDA and OpenCL",
    "real transforms in place, which need padded arrays",
    "cosine and sine transforms in Fortran's order",
    "VkFFTApp, which the functions use; tuning; infinities, which spread everywhere",
)
LIMITS = {"single": 5e-6, "double": 1e-13}  # roundings of 2^24 elements; long primes add some
TYPES = {"single": ("float32", "complex64"), "double": ("float64", "complex128")}
SIZES = {"normal": 1.0, "large": 1e12, "small": 1e-12}
LONGEST = 1009  # of an axis, a prime
BUSY = 2048  # rows of a product that takes longer than a launch

Row = dict[str, Any]

SHARED: dict[str, tuple[Any, ...]] = {
    "precision": ("single", "double"),
    "ndim": ("all", 1, 2),
    "place": ("new", "own"),
    "values": ("normal", "large", "small"),
    "stream": ("current", "second"),
}
AXES: dict[str, tuple[Any, ...]] = {
    "what": ("fft", "ifft", "rfft", "irfft"),
    "shape": (*((64, 64), (17,), (LONGEST,), (1 << 18,), (2, 1), (8, 12, 10), (4, 169, 22)),),
    "norm": (1, 0, "ortho"),
    "order": ("C", "F"),
    **SHARED,
}
REAL_AXES: dict[str, tuple[Any, ...]] = {
    "what": ("dct", "idct", "dst", "idst"),
    "type": (2, 1, 3, 4),
    "shape": ((64, 64), (LONGEST,), (5, 7, 11), (4, 169, 22)),
    "norm": (1, 0),
    **SHARED,
}


def exists(row: Row) -> bool:
    """Return False for more axes than there are, one of one element, what `UNTOUCHED` names."""
    shape = row["shape"]
    if (row["ndim"] != "all" and row["ndim"] >= len(shape)) or (
        len(shape) == 1 and row.get("order") == "F"
    ):
        return False
    if 1 in {shape[axis] for axis in axes_of(row)} or (
        row["what"] in {"rfft", "irfft"} and row["place"] == "own"
    ):
        return False
    return bool(row.get("type") != 1 or not row["what"].startswith("i"))


def axes_of(row: Row) -> list[int]:
    """Return the transformed axes: the last in memory, of those the nearest elements last."""
    count = len(row["shape"])
    axes = list(range(count))
    if row.get("order") == "F":
        axes.reverse()
    return axes if row["ndim"] == "all" else axes[-row["ndim"] :]


def inputs(row: Row, seed: int) -> tuple[Array]:
    """Return what is transformed: of the inverse of a real transform, one that it can have."""
    random = np.random.default_rng(seed)
    real, whole = TYPES[row["precision"]]
    size = SIZES[row["values"]]
    values: Array = np.asarray(size * random.standard_normal(row["shape"]))
    if row["what"] in {"fft", "ifft"}:
        values = values + 1j * size * random.standard_normal(row["shape"])
        return (values.astype(whole, order=row.get("order", "C")),)
    if row["what"] == "irfft":
        values = np.fft.rfftn(values, axes=axes_of(row))
        return (values.astype(whole, order=row.get("order", "C")),)
    return (values.astype(real, order=row.get("order", "C")),)


def transformed(row: Row, array: Any, stream: Any) -> Any:
    """Return the package's transform of a CuPy array."""
    name = row["what"]
    more: dict[str, Any] = {"norm": row["norm"], "cuda_stream": stream}
    if row["ndim"] != "all":
        more["ndim"] = row["ndim"]
    if row["place"] == "own":
        more["dest"] = array
    if "type" in row:
        more[f"{name[-3:]}_type"] = row["type"]
    if name == "irfft":
        more["r2c_odd"] = row["shape"][axes_of(row)[-1]] % 2 == 1
    return getattr(fft, f"{name}n")(array, **more)


@functools.lru_cache
def second_stream() -> Any:
    """Return a stream: for another one the package would compile its kernels again."""
    return cupy.cuda.Stream(non_blocking=True)


def call(row: Row, values: Array) -> Array:
    """Return the transform; on the second stream the input is written late."""
    if row["stream"] == "current":
        array = cupy.asarray(values, order=row.get("order", "C"))
        return np.asarray(cupy.asnumpy(transformed(row, array, None)))
    array = cupy.zeros(values.shape, values.dtype, order=row.get("order", "C"))
    late = cupy.asarray(values, order=row.get("order", "C"))
    busy = cupy.ones((BUSY, BUSY), "float32")
    cupy.cuda.Device().synchronize()
    with second_stream() as stream:
        busy = busy @ busy
        array[...] = late
        found = transformed(row, array, stream)
        stream.synchronize()
        return np.asarray(cupy.asnumpy(found))


def matrix_of(name: str, kind: int, size: int) -> Array:
    """Return the matrix of a cosine or sine transform without a factor (as scipy.fft has them)."""
    k, n = np.mgrid[:size, :size].astype(float)
    first = 0 if name == "dct" else 1  # sines of 0 are left out
    angle = {
        1: (k + first) * (n + first) / (size - 1 + 2 * first),
        2: (k + first) * (2 * n + 1) / (2 * size),
        3: (n + first) * (2 * k + 1) / (2 * size),
        4: (2 * k + 1) * (2 * n + 1) / (4 * size),
    }[kind]
    matrix = 2 * (np.cos(np.pi * angle) if name == "dct" else np.sin(np.pi * angle))
    halved = {("dct", 1): [0, -1], ("dct", 3): [0], ("dst", 3): [-1]}.get((name, kind), [])
    matrix[:, halved] /= 2
    return np.asarray(matrix)


def real_expected(row: Row, values: Array) -> Array:
    """Return a cosine or sine transform by its definition."""
    found = values.astype("float64")
    is_inverse, kind = row["what"].startswith("i"), int(row["type"])
    # The inverse of the second type is a transform of the third, and the other way round.
    used = {2: 3, 3: 2}.get(kind, kind) if is_inverse else kind
    for axis in axes_of(row):
        size = row["shape"][axis]
        matrix = matrix_of(row["what"][-3:], used, size)
        found = np.moveaxis(np.tensordot(matrix, found, (1, axis)), 0, axis)
        found = found / (2 * size) if is_inverse and row["norm"] == 1 else found
    return found


def expected(row: Row, values: Array) -> Array:
    """Return the same by numpy."""
    name, axes = row["what"], axes_of(row)
    scale: Any = {0: "forward", 1: "backward", "ortho": "ortho"}[row["norm"]]
    exact = values.astype("float64" if name == "rfft" else "complex128")
    if name == "irfft":
        lengths = [row["shape"][axis] for axis in axes]
        return np.asarray(np.fft.irfftn(exact, lengths, axes=axes, norm=scale))
    if name != "ifft" and row["norm"] == 0:
        scale = "backward"  # neither direction has a factor
    function = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn}[name]
    return np.asarray(function(exact, axes=axes, norm=scale))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        call,
        real_expected if "type" in row else expected,
        joined={"shape": "x"},
        limit=LIMITS[row["precision"]],
        # A block's own values may be smaller than what was added up for them.
        block_factor=8.0,
        block_reason="the sums of a transform cancel out where its result is small",
        has_own_kernels=False,  # VkFFT writes them when they are used
        memory=1 << 30,
    )


def timed_case() -> Case:
    """Return a large transform."""
    return large_case(
        "fft single 256x256x256",
        usual(AXES, shape=(256, 256, 256)),
        *(inputs, call, expected),
        limit=LIMITS["single"],
        has_own_kernels=False,
        memory=4 << 30,
    )


GRIDS = ((AXES, exists, grid_case), (REAL_AXES, exists, grid_case))


def cases() -> list[Case]:
    """Return a large transform to check and to measure; the grid."""
    return [timed_case(), *cases_of(*GRIDS)]
