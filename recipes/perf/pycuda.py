"""pycuda's arrays, kernels and copies against numpy, in double precision."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401 - the context that other libraries have too
from grid import case_of, cases_of, large_case, usual
from pycuda import cumath, driver, gpuarray
from pycuda.compiler import SourceModule
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import InclusiveScanKernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from perf_case import Case

    Array = NDArray[Any]

PACKAGE = "pycuda"
FRAMEWORK = "host"
UNTOUCHED = (
    "random numbers; sparse matrices; graphics; several contexts",
    "take, multi_take and textures, by references that CUDA has no longer since 12",
    "arrays with gaps, of which few functions take any; other functions of cumath and gpuarray",
)
LIMITS = {"float32": 1e-6, "complex64": 1e-6, "float64": 1e-14, "int32": 0.0}
NAMES = {"float32": "float", "float64": "double", "int32": "int"}  # in CUDA C++
SIZES = {"normal": 1.0, "large": 1e6}
PITCHED = 7  # columns of a copy from wider rows

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "what": (
        *("axpby", "exp", "sum", "dot", "scan"),
        *("own element-wise", "own reduction", "own kernel", "pitched copy"),
    ),
    "type": ("float32", "float64", "complex64", "int32"),
    "size": (1000, 1, 4097, 1 << 20),
    "part": ("whole", "slice"),
    "values": ("normal", "large"),
    "stream": ("current", "second"),
}
REAL = {"scan", "own kernel"}  # not of complex numbers
STREAMED = {"own kernel", "pitched copy"}  # functions of arrays use the current one

KERNEL = """
__global__ void reversed(const TYPE *x, const TYPE *y, TYPE *out, int count) {
  __shared__ TYPE part[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  part[threadIdx.x] = i < count ? x[i] : 0;
  __syncthreads();
  if (i < count) out[count - 1 - i] = part[threadIdx.x ^ 1] + 2 * y[i];
}
"""


def exists(row: Row) -> bool:
    """Return False for functions that a type or a stream doesn't fit."""
    what, kind = row["what"], row["type"]
    if row["stream"] == "second" and what not in STREAMED:
        return False
    if (kind == "complex64" and what in REAL) or (kind == "int32" and what == "exp"):
        return False
    return what != "pitched copy" or bool(row["size"] >= PITCHED)


def inputs(row: Row, seed: int) -> tuple[Array, ...]:
    """Return two arrays, none of whose elements is near 0."""
    random = np.random.default_rng(seed)
    kind, size = row["type"], row["size"]
    scale = 1.0 if row["what"] == "exp" else SIZES[row["values"]]
    if kind == "int32":
        whole = 20 if scale == 1.0 else 900
        arrays = [random.integers(-whole, whole, size) for _ in range(2)]
    else:
        signs = [random.choice((-1, 1), size) for _ in range(2)]
        arrays = [scale * sign * random.uniform(0.5, 2, size) for sign in signs]
    if row["what"] in {"sum", "scan", "dot", "own reduction"}:
        arrays = [np.abs(array) for array in arrays]  # nothing cancels out
    if kind == "complex64":
        arrays = [array * (1 + 0.5j) for array in arrays]
    return tuple(array.astype(kind) for array in arrays)


@functools.lru_cache
def own(what: str, kind: str) -> Any:
    """Return a kernel of the probe, compiled by nvcc."""
    name = NAMES.get(kind, "pycuda::complex<float>")
    if what == "own element-wise":
        return ElementwiseKernel(f"{name} *x, {name} *y, {name} *z", "z[i] = x[i] * y[i] + x[i]")
    if what == "own reduction":
        arguments = {
            "reduce_expr": "a + b",
            "map_expr": "x[i] * y[i]",
            "arguments": f"const {name} *x, const {name} *y",
        }
        return ReductionKernel(np.dtype(kind), neutral="0", **arguments)
    if what == "scan":
        return InclusiveScanKernel(np.dtype(kind), "a + b")
    return SourceModule(KERNEL.replace("TYPE", name)).get_function("reversed")


def of_arrays(row: Row, x: Any, y: Any) -> Any:
    """Return what a function of the package makes of arrays on the GPU."""
    what = row["what"]
    found: Any
    if what in {"own element-wise", "own reduction"}:
        found = gpuarray.empty_like(x)
        arguments = (x, y, found) if what == "own element-wise" else (x, y)
        reduced = own(what, row["type"])(*arguments)
        return found if reduced is None else reduced
    if what == "scan":
        return own(what, row["type"])(x.copy())
    functions: dict[str, Callable[[], Any]] = {
        "axpby": lambda: x.mul_add(2, y, 3),
        "exp": lambda: cumath.exp(x),
        "sum": lambda: gpuarray.sum(x),
        "dot": lambda: gpuarray.dot(x, y),
    }
    return functions[what]()


def streamed(row: Row, x: Array, y: Array) -> Array:
    """Return what a kernel or a copy makes on a stream, where the inputs are copied too."""
    stream = driver.Stream() if row["stream"] == "second" else None
    pinned = [driver.pagelocked_empty(len(one), one.dtype) for one in (x, y)]
    for page, values in zip(pinned, (x, y), strict=True):
        page[:] = values
    left, right = (gpuarray.to_gpu_async(one, stream=stream) for one in pinned)
    found = gpuarray.zeros(len(x), x.dtype)
    if row["what"] == "own kernel":
        blocks = -(-len(x) // 128)
        own(row["what"], row["type"])(
            *(left, right, found, np.int32(len(x))),
            block=(128, 1, 1),
            grid=(blocks, 1),
            stream=stream,
        )
    else:
        rows = len(x) // PITCHED
        copy = driver.Memcpy2D()
        copy.set_src_device(left.gpudata)
        copy.set_dst_device(found.gpudata)
        copy.src_pitch = copy.dst_pitch = PITCHED * x.itemsize
        copy.width_in_bytes, copy.height = (PITCHED - 2) * x.itemsize, rows
        copy(stream) if stream else copy(aligned=False)
    if stream:
        stream.synchronize()
    return np.asarray(found.get())


def call(row: Row, x: Array, y: Array) -> Array:
    """Return a result of the package in the host's memory."""
    if row["what"] in STREAMED:
        return streamed(row, x, y)
    left, right = gpuarray.to_gpu(x), gpuarray.to_gpu(y)
    if row["part"] == "slice":
        left, right = (
            gpuarray.to_gpu(np.concatenate((one[:1], one, one[:1])))[1:-1] for one in (x, y)
        )
    return np.asarray(of_arrays(row, left, right).get())


def expected(row: Row, x: Array, y: Array) -> Array:
    """Return the same by numpy."""
    what, kind = row["what"], row["type"]
    wide = {"int32": "int64", "complex64": "complex128"}.get(kind, "float64")
    x, y = x.astype(wide), y.astype(wide)
    if what == "own kernel":
        size = -(-len(x) // 128) * 128
        padded = np.zeros(size, wide)
        padded[: len(x)] = x
        neighbours = padded.reshape(-1, 2)[:, ::-1].reshape(-1)[: len(x)]
        return np.asarray((neighbours + 2 * y)[::-1])
    if what == "pitched copy":
        found = np.zeros_like(x)
        whole = len(x) // PITCHED * PITCHED
        found[:whole].reshape(-1, PITCHED)[:, :-2] = x[:whole].reshape(-1, PITCHED)[:, :-2]
        return found
    functions: dict[str, Callable[[], Any]] = {
        "axpby": lambda: 2 * x + 3 * y,
        "exp": lambda: np.exp(x),
        "sum": x.sum,
        "dot": lambda: x @ y,
        "scan": lambda: np.cumsum(x),
        "own element-wise": lambda: x * y + x,
        "own reduction": lambda: x @ y,
    }
    return np.asarray(functions[what]())


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        call,
        expected,
        # Running sums add up the roundings of those before.
        limit=LIMITS[row["type"]] * (100 if row["what"] == "scan" else 1),
        block_factor=8.0,
        block_reason="two terms may nearly cancel out",
        has_own_kernels=False,  # nvcc compiles them when they are used
        memory=1 << 28,
    )


def timed_case() -> Case:
    """Return a large reduction, with the copy of its input."""
    return large_case(
        "dot float32 2^26",
        usual(AXES, what="dot", size=1 << 26),
        *(inputs, call, expected),
        limit=LIMITS["float32"],
        has_own_kernels=False,
        memory=2 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return a large case to check and to measure; the grid."""
    return [timed_case(), *cases_of(*GRIDS)]
