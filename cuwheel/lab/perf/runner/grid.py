"""Cases over everything that a package offers: each pair of values of two axes is in one of them.

Most faults need two particular values at once (D. R. Kuhn, NIST SP 800-142), and covering pairs
takes some thirty cases where all combinations are thousands. The probe's interpreter has none of
the libraries that do this, so it is here: rows are drawn by a seeded generator around a pair that
is still missing, and the one with most missing pairs is taken.

Standard library only; PyTorch is imported in functions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_DRAWS = 60  # rows from which one is chosen
_HOST_CALLS = 50
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
        pairs = (itertools.combinations(row.items(), 2) for row in possible)
        covered = [[pair for pair in of_row if pair in missing] for of_row in pairs]
        best = max(range(len(possible)), key=lambda number: len(covered[number]))
        rows.append(possible[best])
        for pair in covered[best]:
            del missing[pair]
    return [_values(axes, row) for row in rows]


def _values(axes: Mapping[str, Sequence[Any]], row: Mapping[str, int]) -> dict[str, Any]:
    return {name: values[row[name]] for name, values in axes.items()}


def cases_of(
    *grids: tuple[Mapping[str, Sequence[Any]], Callable[..., bool], Callable[..., Any]],
    times_host: bool = True,
) -> list[Any]:
    """Return the case of each row of some grids: axes, which rows exist, what makes a case.

    Args:
        times_host: of each grid's usual row, a small call, the host's time is measured too.
    """
    found = []
    for axes, exists, make in grids:
        if times_host and exists(usual(axes)):
            found.append(host_case(make(usual(axes))))
        found += [make(row) for row in pairwise(axes, exists)]
    return found


def usual(axes: Mapping[str, Sequence[Any]], **others: Any) -> dict[str, Any]:
    """Return the row of each axis' first value, with some other values."""
    return {**{name: values[0] for name, values in axes.items()}, **others}


def name_of(row: Mapping[str, Any]) -> str:
    """Return a row as text: `dtype=bf16 width=4`."""
    return " ".join(f"{name}={value}" for name, value in row.items())


def case_of(  # noqa: PLR0913 - what a case is made of
    row: Mapping[str, Any],
    inputs: Callable[..., Any],
    call: Callable[..., Any],
    expected: Callable[..., Any],
    *,
    label: str = "",
    joined: Mapping[str, str] | None = None,
    **fields: Any,
) -> Any:
    """Return the case of a row, which is only checked; the call runs on the row's stream.

    Args:
        inputs, call, expected: as a case's, with the row as first argument.
        label: the beginning of the case's name.
        joined: axes whose values are sequences, and what joins one in the name.
        fields: others of the case.
    """
    from perf_case import Case  # type: ignore[import-not-found] # noqa: PLC0415

    texts = {name: mark.join(map(str, row[name])) for name, mark in (joined or {}).items()}
    return Case(
        name=f"{label} {name_of({**row, **texts})}".lstrip(),
        inputs=functools.partial(inputs, row),
        call=functools.partial(on_stream, call, row),
        expected=functools.partial(expected, row),
        is_grid=True,
        is_timed=False,
        **fields,
    )


def large_case(
    name: str,
    row: Mapping[str, Any],
    inputs: Callable[..., Any],
    call: Callable[..., Any],
    expected: Callable[..., Any],
    **fields: Any,
) -> Any:
    """Return a case of a row that is measured too.

    Args:
        inputs, call, expected: as a case's, with the row as first argument.
        fields: others of the case.
    """
    from perf_case import Case  # noqa: PLC0415

    made = (functools.partial(function, row) for function in (inputs, call, expected))
    return Case(name, *made, **fields)


def host_case(case: Any) -> Any:
    """Return a case of a grid as one of which the host's time for a call is measured."""
    name = f"{case.name}, host time"
    return dataclasses.replace(
        case, name=name, is_grid=False, is_timed=True, host_calls=_HOST_CALLS
    )


def on_stream(function: Callable[..., Any], row: Mapping[str, Any], *values: Any) -> Any:
    """Call a function of a row on the row's stream."""
    call = functools.partial(function, row)
    return on_second_stream(call, *values) if row.get("stream") == "second" else call(*values)


def exactly(function: Callable[..., Any], row: Mapping[str, Any], *values: Any) -> Any:
    """Call a function of a row with PyTorch's values in double precision."""
    return function(row, *in_float64(values))


def random_of(seed: int, device: str = "cuda") -> Callable[..., Any]:
    """Return a source of PyTorch's normal variables of a shape and a type, by its name."""
    import torch  # noqa: PLC0415

    generator = torch.Generator(device).manual_seed(seed)

    def draw(*shape: int, dtype: str = "float32") -> Any:
        values = torch.randn(shape, device=device, generator=generator)
        return values.to(getattr(torch, dtype))

    return draw


def in_float64(values: Sequence[Any]) -> list[Any]:
    """Return PyTorch's floating-point tensors in double precision, other values as they are."""
    import torch  # noqa: PLC0415

    kinds = {True: torch.complex128, False: torch.float64}
    return [
        value.to(kinds[value.is_complex()]) if is_differentiable(value) else value
        for value in values
    ]


def is_differentiable(value: Any) -> bool:
    """Return True for a tensor of PyTorch's that can have a gradient."""
    import torch  # noqa: PLC0415

    return bool(torch.is_tensor(value) and (value.is_floating_point() or value.is_complex()))


def gradients_of(function: Callable[..., Any], values: Sequence[Any], ahead: Any) -> Any:
    """Return the gradients of all floating-point values of a call of PyTorch's.

    Args:
        ahead: gradients of the function's outputs.
    """
    import torch  # noqa: PLC0415

    leaves = [v.detach().requires_grad_() if is_differentiable(v) else v for v in values]
    of = [leaf for leaf in leaves if is_differentiable(leaf)]
    return torch.autograd.grad(function(*leaves), of, ahead, materialize_grads=True)


def rounding_of(*kinds: str) -> float:
    """Return the error of one rounding to the coarsest of PyTorch's types; of float32's sums."""
    import torch  # noqa: PLC0415

    return max(1e-5, *(0.5 * float(torch.finfo(getattr(torch, kind)).eps) for kind in kinds))


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
