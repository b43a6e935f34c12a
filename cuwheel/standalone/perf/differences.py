"""How far a result is from what is expected: as a whole, and in each block of its elements.

The norm over a whole output hides what is wrong with a few elements among millions: one of 2^22
that is wrong by as much as all are large in the mean is an error of 1/2048. In its block of 256 it
is 1/16. With limits of 1e-3 to 5e-3, and four times that for a block (`perf_case.BLOCK_FACTOR`),
one element is seen that is wrong by 0.06 to 0.3 of the output's root mean square. Smaller blocks
would see smaller errors, but there what is no fault scatters more: a number in the middle between
two codes of a quantizer, a pixel at a threshold.

Standard library only; numpy or PyTorch is imported by the function that is for it.
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
    """An output has another shape than expected, or there are more or fewer of them."""


class Difference(NamedTuple):
    """How far a result is from what is expected; NaN where one is in them.

    Attributes:
        error: norm of the difference over the norm of what is expected, of the worst output.
        block_error: the same of the worst block; what is expected counts as at least as large as
            the whole output is in the mean, so that a block of zeros doesn't divide by nothing.
        block: which that is: `elements 512 to 767`.
    """

    error: float
    block_error: float
    block: str


def leaves(value: Any) -> list[Any]:
    """The arrays of an output: itself, or those of a tuple, list or dictionary of them."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


def compare(actual: Any, expected: Any, sums: BlockSums) -> Difference:
    """The difference of two outputs.

    Args:
        actual: an array or several, of numbers of any kind.
        expected: the same.
        sums: gives, of two arrays of one shape, the squares of the difference and those of what is
            expected, summed up block by block: `numpy_sums` or `torch_sums`.

    Raises:
        WrongOutputError: there are other arrays than expected, or others' shapes.
    """
    outputs = list(pairs(actual, expected))
    found = [
        _difference(*sums(one, other), math.prod(_shape(other)), number if outputs[1:] else 0)
        for number, (one, other) in enumerate(outputs, start=1)
    ]
    return worst(found)


def worst(found: Iterable[Difference]) -> Difference:
    """The largest error, and the block with the largest of all."""
    error, block_error, block = 0.0, 0.0, ""
    for one in found:
        error = larger(error, one.error)
        is_worse = one.block_error > block_error or not math.isfinite(one.block_error)
        if is_worse or not block:
            block_error, block = one.block_error, one.block
    return Difference(error, block_error, block)


def pairs(actual: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Each array of an output with the one that was expected, which has its shape.

    Raises:
        WrongOutputError: there are more of one than of the other, or another shape.
    """
    ours, theirs = leaves(actual), leaves(expected)
    if len(ours) != len(theirs):
        raise WrongOutputError(f"it returns {len(ours)} arrays, and {len(theirs)} were expected")
    for one, other in zip(ours, theirs):
        if _shape(one) != _shape(other):
            raise WrongOutputError(f"its shape is {_shape(one)}, and {_shape(other)} was expected")
    return zip(ours, theirs)


def larger(worst: float, found: float) -> float:
    """The larger of two errors; NaN and infinity are larger than all."""
    return found if not math.isfinite(found) or found > worst else worst


def numpy_sums(one: Any, other: Any) -> tuple[Any, Any]:
    """Sums of squares by numpy in double precision; of JAX's arrays too, copied to the host."""
    import numpy as np  # noqa: PLC0415 - where the package has it

    a, b = np.asarray(one).reshape(-1), np.asarray(other).reshape(-1)
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64

    def sums(values: Any) -> Any:
        return np.add.reduceat(np.abs(values) ** 2, np.arange(0, len(values), BLOCK))

    wrong, right = [np.zeros(0)], [np.zeros(0)]
    for start in range(0, len(b), _CHUNK):
        piece = b[start : start + _CHUNK].astype(wide)
        right.append(sums(piece))
        wrong.append(sums(a[start : start + _CHUNK].astype(wide) - piece))
    return np.concatenate(wrong), np.concatenate(right)


def torch_sums(one: Any, other: Any) -> tuple[Any, Any]:
    """Sums of squares by PyTorch in double precision, where what is expected lies."""
    import torch  # noqa: PLC0415

    a, b = one.detach().reshape(-1), other.detach().reshape(-1)
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


def _difference(wrong: Any, right: Any, count: int, number: int) -> Difference:
    """Of one array with so many elements, from its sums of squares.

    Args:
        wrong: of the difference, block by block.
        right: of what is expected.
        count: elements.
        number: which of several outputs it is; 0: there is one.
    """
    if not count:
        return Difference(0.0, 0.0, "")
    total, size = float(wrong.sum()), float(right.sum())
    # Where nothing but zeros was expected, the error is the difference itself.
    blocks = wrong / right.clip(min=min(BLOCK, count) * size / count) if size else wrong
    start = BLOCK * int(blocks.argmax())
    of_output = f" of output {number}" if number else ""
    return Difference(
        error=math.sqrt(total / size if size else total),
        block_error=math.sqrt(float(blocks.max())),
        block=f"elements {start} to {min(start + BLOCK, count) - 1}{of_output}",
    )


def _shape(value: Any) -> tuple[int, ...]:
    """Of an array; a number has none."""
    return tuple(getattr(value, "shape", ()))
