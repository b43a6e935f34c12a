"""Errors of a result relative to the expected one: of the whole, and of each block of elements.

The norm of a whole output hides the error of a few elements: if one of 2^22 is off by the root mean
square of all, the error is 1/2048; in its block of 256 it is 1/16. With limits of 1e-3 to 5e-3, and
four times that for a block (`perf_case.BLOCK_FACTOR`), an element that is off by 0.06 to 0.3 of the
root mean square is detected. Smaller blocks would detect smaller errors, but also harmless ones: a
number in the middle between two codes of a quantizer, a pixel at a threshold.

Standard library only; numpy and PyTorch are imported in functions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    BlockSums = Callable[[Any, Any], tuple[Any, Any]]

BLOCK = 256  # elements, in the order of memory
_CHUNK = 1 << 24  # elements of a comparison at once, a multiple of `BLOCK`


class WrongOutputError(ValueError):
    """An output of another shape than expected, or another number of outputs."""


class OutputDifference(NamedTuple):
    """Relative errors of a result; NaN if it contains one.

    Attributes:
        error: norm of the difference over the norm of the expected output, of the worst output.
        block_error: likewise of the worst block; the divisor is at least the output's mean over
            such a block, so that blocks of zeros don't divide by zero.
        block: the worst one: `elements 512 to 767`.
    """

    error: float
    block_error: float
    block: str


def leaves(value: Any) -> list[Any]:
    """Return the arrays of an output: itself, or those in a tuple, list or dictionary."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


def compare(actual: Any, expected: Any, sums: BlockSums) -> OutputDifference:
    """Compare two outputs.

    Args:
        sums: returns, for two arrays of one shape, the sums of squares of the difference and of the
            expected array, block by block: `numpy_sums` or `torch_sums`.

    Raises:
        WrongOutputError: the number of arrays or their shapes differ.
    """
    outputs = list(pairs(actual, expected))
    return worst(
        _difference(*sums(array, right), math.prod(_shape(right)), number if outputs[1:] else 0)
        for number, (array, right) in enumerate(outputs, start=1)
    )


def worst(differences: Iterable[OutputDifference]) -> OutputDifference:
    """Return the largest error, and the block with the largest of all."""
    error, block_error, block = 0.0, 0.0, ""
    for part in differences:
        error = larger(error, part.error)
        is_worse = part.block_error > block_error or not math.isfinite(part.block_error)
        if is_worse or not block:
            block_error, block = part.block_error, part.block
    return OutputDifference(error, block_error, block)


def pairs(actual: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Return each array of an output with the expected one; raises WrongOutputError."""
    arrays, rights = leaves(actual), leaves(expected)
    if len(arrays) != len(rights):
        raise WrongOutputError(f"it returns {len(arrays)} arrays, and {len(rights)} were expected")
    for array, right in zip(arrays, rights):
        if _shape(array) != _shape(right):
            raise WrongOutputError(
                f"its shape is {_shape(array)}, and {_shape(right)} was expected"
            )
    return zip(arrays, rights)


def larger(worst: float, error: float) -> float:
    """Return the larger of two errors; NaN and infinity are larger than all."""
    return error if not math.isfinite(error) or error > worst else worst


def numpy_sums(actual: Any, expected: Any) -> tuple[Any, Any]:
    """Return sums of squares by numpy in double precision; JAX's arrays are copied to the host."""
    import numpy as np  # noqa: PLC0415 - only packages that use it have it

    a, b = np.asarray(actual).reshape(-1), np.asarray(expected).reshape(-1)
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64

    def sums(values: Any) -> Any:
        return np.add.reduceat(np.abs(values) ** 2, np.arange(0, len(values), BLOCK))

    wrong, right = [np.zeros(0)], [np.zeros(0)]
    for start in range(0, len(b), _CHUNK):
        piece = b[start : start + _CHUNK].astype(wide)
        right.append(sums(piece))
        wrong.append(sums(a[start : start + _CHUNK].astype(wide) - piece))
    return np.concatenate(wrong), np.concatenate(right)


def torch_sums(actual: Any, expected: Any) -> tuple[Any, Any]:
    """Return sums of squares by PyTorch in double precision, on the expected array's device."""
    import torch  # noqa: PLC0415

    a, b = actual.detach().reshape(-1), expected.detach().reshape(-1)
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64

    def sums(values: Any) -> Any:
        squares = values.abs().square()
        whole = torch.nn.functional.pad(squares, (0, -len(squares) % BLOCK))
        return whole.view(-1, BLOCK).sum(1)

    nothing = torch.zeros(0, dtype=torch.float64, device=b.device)
    wrong, right = [nothing], [nothing]
    for start in range(0, len(b), _CHUNK):
        piece = b[start : start + _CHUNK].to(wide)
        right.append(sums(piece))
        part = a[start : start + _CHUNK].to(device=b.device, dtype=wide)
        wrong.append(sums(part - piece))
    return torch.cat(wrong), torch.cat(right)


def _difference(wrong: Any, right: Any, count: int, number: int) -> OutputDifference:
    """Return the errors of one array; `number` is the output's, 0 if there is only one."""
    if not count:
        return OutputDifference(0.0, 0.0, "")
    total, size = float(wrong.sum()), float(right.sum())
    # Where nothing but zeros was expected, the error is the difference itself.
    blocks = wrong / right.clip(min=min(BLOCK, count) * size / count) if size else wrong
    start = BLOCK * int(blocks.argmax())
    of_output = f" of output {number}" if number else ""
    return OutputDifference(
        error=math.sqrt(total / size if size else total),
        block_error=math.sqrt(float(blocks.max())),
        block=f"elements {start} to {min(start + BLOCK, count) - 1}{of_output}",
    )


def _shape(value: Any) -> tuple[int, ...]:
    """Return an array's shape; that of a number is empty."""
    return tuple(getattr(value, "shape", ()))
