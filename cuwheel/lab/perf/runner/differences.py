"""Errors of a result relative to the expected one: of the whole, of blocks, and of each element.

The norm of a whole output hides the error of a few elements: if one of 2^22 is off by the root mean
square of all, the error is 1/2048; in its block of 256 it is 1/16. With limits of 1e-3 to 5e-3, and
four times that for a block (`perf_case.BLOCK_FACTOR`), an element that is off by 0.06 to 0.3 of the
root mean square is detected. Smaller blocks would detect smaller errors, but also harmless ones: a
number in the middle between two codes of a quantizer, a pixel at a threshold.

An element's error is in units of its format: of `eps`, 2^-7 for bf16, times the larger of the
element and the root mean square of all. Rounding hides a smaller error of every element, but only
in one element: in sums of `difference * expected` roundings cancel out. The `bias` is this sum over
that of `expected^2`. A rounding's relative error has a standard deviation of about 0.21 eps, and
normal values count as a third of their number, so the bias of n elements has 0.36 eps / sqrt(n):
`_BIAS` allows five times that, which finds an error of 1e-3 in 4096 elements of bf16.

Standard library only; numpy and PyTorch are imported in functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

BlockSums = Callable[..., "Sums"]

BLOCK = 256  # elements, in the order of memory
_MANY = 16  # blocks over which a bias is taken
_BIAS = (0.03, 2.0)  # of eps: of what a kernel's own constants may shift, of roundings
_LEAST_BIAS = 2e-6  # of functions such as ex2.approx in single precision
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
        units: of the worst element's error.
        bias: of the worst 4096 elements, as a multiple of what rounding allows.
    """

    error: float
    block_error: float
    block: str
    units: float = 0.0
    bias: float = 0.0


class Sums(NamedTuple):
    """Sums over blocks of an output, and its worst element.

    Attributes:
        wrong, right: of squares of the difference and of the expected array.
        along: of the product of both.
        units: of the worst element's error.
        eps: of the output's format; 0: it holds integers.
    """

    wrong: Any
    right: Any
    along: Any
    units: float
    eps: float


def leaves(value: Any) -> list[Any]:
    """Return the arrays of an output: itself, or those in a tuple, list or dictionary."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


def compare(
    actual: Any, expected: Any, sums: BlockSums, *, is_special: bool = False
) -> OutputDifference:
    """Compare two outputs.

    Args:
        sums: `numpy_sums` or `torch_sums`.
        is_special: NaN and infinities are expected, in the same elements.

    Raises:
        WrongOutputError: the number of arrays or their shapes differ.
    """
    outputs = list(pairs(actual, expected))
    return worst(
        _difference(
            sums(array, right, is_special=is_special),
            math.prod(_shape(right)),
            number if outputs[1:] else 0,
        )
        for number, (array, right) in enumerate(outputs, start=1)
    )


def worst(differences: Iterable[OutputDifference]) -> OutputDifference:
    """Return the largest error, and the block with the largest of all."""
    error, block_error, block, units, bias = 0.0, 0.0, "", 0.0, 0.0
    for part in differences:
        error, units = larger(error, part.error), larger(units, part.units)
        bias = larger(bias, part.bias)
        is_worse = part.block_error > block_error or not math.isfinite(part.block_error)
        if is_worse or not block:
            block_error, block = part.block_error, part.block
    return OutputDifference(error, block_error, block, units, bias)


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


def numpy_sums(actual: Any, expected: Any, *, is_special: bool = False) -> Sums:
    """Return sums by numpy in double precision; JAX's arrays are copied to the host."""
    import numpy as np  # noqa: PLC0415 - only packages that use it have it

    a, b = np.asarray(actual).reshape(-1), np.asarray(expected).reshape(-1)
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64
    eps = float(np.finfo(a.dtype).eps) if a.dtype.kind in "fc" else 0.0

    def total(values: Any) -> Any:
        return np.add.reduceat(values, np.arange(0, len(values), BLOCK))

    def pieces() -> Iterator[tuple[Any, Any]]:
        for start in range(0, len(b), _CHUNK):
            left, right = (array[start : start + _CHUNK].astype(wide) for array in (a, b))
            if is_special:
                is_same = ~np.isfinite(right) & ((left == right) | np.isnan(left) & np.isnan(right))
                right = np.where(is_same | np.isfinite(right), right, np.nan)
                left, right = np.where(is_same, 0, left), np.where(is_same, 0, right)
            with np.errstate(invalid="ignore", over="ignore"):
                yield left - right, right

    wrong, right, along = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    with np.errstate(invalid="ignore", over="ignore"):
        for difference, piece in pieces():
            wrong.append(total(np.abs(difference) ** 2))
            right.append(total(np.abs(piece) ** 2))
            along.append(total((difference * piece.conj()).real))
        a_sums, b_sums, along_sums = (np.concatenate(part) for part in (wrong, right, along))
        scale = _scale(b_sums, len(b))
        units = 0.0
        for difference, piece in pieces():
            sizes = np.maximum(np.abs(piece), scale) * eps if eps else 1.0
            units = larger(units, float(np.max(np.abs(difference) / sizes)))
    return Sums(a_sums, b_sums, along_sums, units, eps)


def torch_sums(actual: Any, expected: Any, *, is_special: bool = False) -> Sums:
    """Return sums by PyTorch in double precision, on the expected array's device."""
    import torch  # noqa: PLC0415

    a, b = actual.detach().reshape(-1), expected.detach().reshape(-1)
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    eps = torch.finfo(a.dtype).eps if a.is_floating_point() or a.is_complex() else 0.0

    def total(values: Any) -> Any:
        whole = torch.nn.functional.pad(values, (0, -len(values) % BLOCK))
        return whole.view(-1, BLOCK).sum(1)

    def pieces() -> Iterator[tuple[Any, Any]]:
        for start in range(0, len(b), _CHUNK):
            right = b[start : start + _CHUNK].to(wide)
            left = a[start : start + _CHUNK].to(device=b.device, dtype=wide)
            if is_special:
                is_same = ~right.isfinite() & ((left == right) | left.isnan() & right.isnan())
                right = right.where(is_same | right.isfinite(), math.nan)
                left, right = left.masked_fill(is_same, 0), right.masked_fill(is_same, 0)
            yield left - right, right

    nothing = torch.zeros(0, dtype=torch.float64, device=b.device)
    wrong, right, along = [nothing], [nothing], [nothing]
    for difference, piece in pieces():
        wrong.append(total(difference.abs().square()))
        right.append(total(piece.abs().square()))
        along.append(total((difference * piece.conj()).real))
    a_sums, b_sums, along_sums = (torch.cat(part) for part in (wrong, right, along))
    scale = _scale(b_sums, len(b))
    units = 0.0
    for difference, piece in pieces():
        sizes = piece.abs().clip(min=scale) * eps if eps else 1.0
        units = larger(units, float((difference.abs() / sizes).max()))
    return Sums(a_sums, b_sums, along_sums, units, eps)


def _scale(right: Any, count: int) -> float:
    """Return the root mean square of an expected array; 1 where it is 0 or no number."""
    size = math.sqrt(float(right.sum()) / count) if count else 0.0
    return size if math.isfinite(size) and size else 1.0


def bias_of(sums: Sums, count: int) -> float:
    """Return the largest bias of many blocks, as a multiple of what rounding allows."""
    whole = float(sums.right.sum())
    if not sums.eps or not whole or not math.isfinite(whole):
        return 0.0
    worst = 0.0
    starts = range(0, len(sums.right), _MANY)
    rights, alongs = (_grouped(part) for part in (sums.right, sums.along))
    mean = whole / count
    for start, right, along in zip(starts, rights, alongs):
        elements = min(_MANY * BLOCK, count - start * BLOCK)
        constant, rounding = _BIAS
        allowed = sums.eps * (constant + rounding / math.sqrt(elements)) + _LEAST_BIAS
        worst = larger(worst, abs(along) / max(right, elements * mean) / allowed)
    return worst


def _grouped(values: Any) -> list[float]:
    """Return the sums of so many blocks each."""
    if hasattr(values, "device") and hasattr(values, "new_zeros"):  # PyTorch's
        whole = values.new_zeros(-(-len(values) // _MANY) * _MANY)
        whole[: len(values)] = values
        sums: list[float] = whole.view(-1, _MANY).sum(1).tolist()
        return sums
    numbers = values.tolist()
    return [sum(numbers[start : start + _MANY]) for start in range(0, len(numbers), _MANY)]


def _difference(sums: Sums, count: int, number: int) -> OutputDifference:
    """Return the errors of one array; `number` is the output's, 0 if there is only one."""
    if not count:
        return OutputDifference(0.0, 0.0, "")
    wrong, right = sums.wrong, sums.right
    total, size = float(wrong.sum()), float(right.sum())
    # Where nothing but zeros was expected, the error is the difference itself.
    blocks = wrong / right.clip(min=min(BLOCK, count) * size / count) if size else wrong
    start = BLOCK * int(blocks.argmax())
    of_output = f" of output {number}" if number else ""
    return OutputDifference(
        error=math.sqrt(total / size if size else total),
        block_error=math.sqrt(float(blocks.max())),
        block=f"elements {start} to {min(start + BLOCK, count) - 1}{of_output}",
        units=sums.units,
        bias=bias_of(sums, count),
    )


def _shape(value: Any) -> tuple[int, ...]:
    """Return an array's shape; that of a number is empty."""
    return tuple(getattr(value, "shape", ()))
