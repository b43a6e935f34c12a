"""Tensor networks with cuTensorNet, and their entanglement with cuSOLVER."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutensornet_sample import _core
from cutensornet_sample._core import CudaError
from cutensornet_sample._expression import parse
from cutensornet_sample._libraries import Library, libraries

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__version__ = "0.1.0"
__all__ = [
    "CudaError",
    "Library",
    "contract",
    "count_flops",
    "entanglement_entropy",
    "libraries",
    "schmidt_values",
]


def contract(expression: str, *operands: ArrayLike) -> NDArray[Any]:
    """Contract a tensor network on the GPU, in double precision.

    Args:
        expression: as `numpy.einsum` takes it, with `->`, without `...` and repeated letters in
            one tensor: `"ab,bc->ac"`.
        operands: one for each tensor of the expression; complex ones give a complex result.

    Raises:
        ValueError: expression and shapes don't fit together.
        CudaError: there is no GPU, or a call failed; the text is CUDA's.
    """
    arrays = [np.asarray(operand) for operand in operands]
    network = parse(expression, [array.shape for array in arrays])
    kind = _kind_of(*arrays)
    data = [array.astype(kind).tobytes() for array in arrays]
    inputs = tuple(zip(network.inputs, data, strict=True))
    result = _core.contract(kind == np.complex128, network.extents, inputs, network.output)
    shape = [network.extents[mode] for mode in network.output]
    return np.frombuffer(result, kind).reshape(shape).copy()  # bytes can't be written to


def count_flops(expression: str, *shapes: tuple[int, ...]) -> float:
    """Floating-point operations of the best path that cuTensorNet finds; needs no GPU.

    Args:
        expression: as in `contract`.
        shapes: of each tensor of the expression.

    Raises:
        ValueError: expression and shapes don't fit together.
        CudaError: cuTensorNet refuses the network.
    """
    network = parse(expression, shapes)
    inputs = tuple((modes, None) for modes in network.inputs)
    return float(_core.count_flops(False, network.extents, inputs, network.output))


def schmidt_values(state: ArrayLike, cut: int) -> NDArray[np.float64]:
    """Schmidt values of a state between its first `cut` axes and the others, in descending order.

    Args:
        state: a tensor with one axis for each site.
        cut: how many axes are on the left, at least one; so are there on the right.

    Raises:
        ValueError: the cut leaves one side empty.
        CudaError: there is no GPU, or a call failed; the text is CUDA's.
    """
    array = np.asarray(state)
    if not 0 < cut < array.ndim:
        raise ValueError(f"cut={cut} leaves one side of {array.ndim} axes empty")
    matrix = array.reshape(math.prod(array.shape[:cut]), -1)
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    kind = _kind_of(array)
    data = np.ascontiguousarray(wide, kind).tobytes()
    return np.frombuffer(_core.singular_values(kind == np.complex128, *wide.shape, data)).copy()


def entanglement_entropy(values: ArrayLike) -> float:
    """The entropy of Schmidt values, in bits; they are normalised first."""
    weights = np.asarray(values, dtype=np.float64) ** 2
    weights = weights[weights > 0] / weights.sum()
    return float(-(weights * np.log2(weights)).sum())


def _kind_of(*arrays: NDArray[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex128 if any(map(np.iscomplexobj, arrays)) else np.float64)
