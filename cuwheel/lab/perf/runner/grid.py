"""Cases over everything that a package offers: each pair of values of two axes is in one of them.

Most faults need two particular values at once (D. R. Kuhn, NIST SP 800-142), and covering pairs
takes some thirty cases where all combinations are thousands. The probe's interpreter has none of
the libraries that do this, so it is here: rows are drawn by a seeded generator around a pair that
is still missing, and the one with most missing pairs is taken.

Standard library only; PyTorch is imported in functions.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_DRAWS = 60  # rows from which one is chosen
_CYCLES = 1_000_000  # about 0.5 ms, more than a launch of a small kernel takes


def pairwise(
    axes: Mapping[str, Sequence[Any]], exists: Callable[[dict[str, Any]], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """Return rows, one value of each axis, in which each possible pair of values occurs.

    Args:
        axes: the values of each, the usual one first.
        exists: returns False for a row that the package doesn't offer.
    """
    chance = random.Random(0)  # noqa: S311 - the same rows in each run
    missing = {
        ((a, i), (b, j)): None
        for a, b in itertools.combinations(axes, 2)
        for i, j in itertools.product(range(len(axes[a])), range(len(axes[b])))
    }
    rows: list[dict[str, int]] = []
    while missing:
        pair = next(iter(missing))
        draws = [
            {**{name: chance.randrange(len(values)) for name, values in axes.items()}, **dict(pair)}
            for _ in range(_DRAWS)
        ]
        possible = [row for row in draws if exists(_values(axes, row))]
        if not possible:  # the package hasn't got this pair
            del missing[pair]
            continue
        covered = [[pair for pair in _pairs(row) if pair in missing] for row in possible]
        best = max(range(len(possible)), key=lambda number: len(covered[number]))
        rows.append(possible[best])
        for pair in covered[best]:
            del missing[pair]
    return [_values(axes, row) for row in rows]


def _pairs(row: Mapping[str, int]) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    return list(itertools.combinations(row.items(), 2))


def _values(axes: Mapping[str, Sequence[Any]], row: Mapping[str, int]) -> dict[str, Any]:
    return {name: values[row[name]] for name, values in axes.items()}


def name_of(row: Mapping[str, Any]) -> str:
    """Return a row as text: `dtype=bf16 width=4`."""
    return " ".join(f"{name}={value}" for name, value in row.items())


def on_second_stream(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of PyTorch's on a stream whose work before the call takes long.

    The inputs are NaN until then: a kernel on another stream reads them too early.
    """
    import torch  # noqa: PLC0415

    late = [
        torch.full_like(value, float("nan"))
        if torch.is_tensor(value) and value.is_floating_point()
        else value
        for value in arguments
    ]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(_CYCLES)  # noqa: SLF001 - PyTorch's own tests use it so
        for value, copy in zip(arguments, late):
            if copy is not value:
                copy.copy_(value)
        result = function(*late)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    return result
