"""Expressions like numpy's einsum, as modes and extents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Network(NamedTuple):
    """The extent of each mode; the modes of each input and of the output, by number."""

    extents: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]


def parse(expression: str, shapes: Sequence[tuple[int, ...]]) -> Network:
    """Read an expression for tensors of these shapes.

    Raises:
        ValueError: they don't fit together.
    """
    left, arrow, output = expression.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or not all(map(_is_term, terms)) or not (_is_term(output) or not output):
        raise ValueError(f'"{expression}": wanted is something like "ab,bc->ac"')
    if len(terms) != len(shapes):
        raise ValueError(f'"{expression}" has {len(terms)} tensors, and {len(shapes)} were given')
    extents = _extents(terms, shapes)
    if strange := sorted(set(output) - set(extents)):
        raise ValueError(f'"{expression}": no tensor has "{strange[0]}"')
    numbers = {letter: number for number, letter in enumerate(extents)}
    return Network(
        extents=tuple(extents.values()),
        inputs=tuple(tuple(numbers[letter] for letter in term) for term in terms),
        output=tuple(numbers[letter] for letter in output),
    )


def _is_term(text: str) -> bool:
    return text.isalpha() and len(set(text)) == len(text)


def _extents(terms: list[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise ValueError(f'"{term}" has {len(term)} letters, its tensor {len(shape)} axes')
        for letter, extent in zip(term, shape, strict=True):
            if extents.setdefault(letter, extent) != extent or extent < 1:
                raise ValueError(f'"{letter}" is {extents[letter]} and {extent} long')
    return extents
