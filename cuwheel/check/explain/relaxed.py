"""Patterns that treat digits alike, for one answer on many lines that differ in numbers only."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from cuwheel.check.explain.literals import TOKEN

_DIGITS = "0123456789"
_HEXADECIMAL = "0123456789abcdefABCDEF"


@functools.cache
def is_same_for_digits(source: str) -> bool:
    """Return True if each character, set and position of a pattern treats all digits alike.

    Its matches have the same places in two texts that differ in digits only then.
    """
    tokens = (token["one"] for token in TOKEN.finditer(source))
    return all(_is_same(token, _DIGITS) for token in tokens if token)


@functools.cache
def relaxed(source: str) -> re.Pattern[str]:
    """Return a pattern that takes any hexadecimal digit where the first one takes some of them.

    Where the first one matches, it matches too, whatever the digits are.
    """
    tokens = TOKEN.finditer(source)
    return re.compile("".join(_relaxed(tokens)[0]), re.IGNORECASE | re.MULTILINE)


def _relaxed(tokens: Iterator[re.Match[str]]) -> tuple[list[str], bool]:
    """Return the parts up to the end of a group, and whether they have been relaxed."""
    parts: list[str] = []
    is_changed = False
    for token in tokens:
        if token["end"]:
            break
        if token["look"] or token["group"]:
            inner, changed = _relaxed(tokens)
            is_changed |= changed
            if not (changed and token[0].endswith("!")):  # it would refuse more, and goes
                parts.append(f"{token[0]}{''.join(inner)})")
        elif token["one"] and not _is_same(token["one"], _HEXADECIMAL):
            is_changed = True
            is_reference = token["one"].startswith("(")
            parts.append(r"[\s\S]*" if is_reference else f"(?:{token['one']}|[0-9a-fA-F])")
        else:
            parts.append(token[0])
    return parts, is_changed


@functools.cache
def _is_same(token: str, characters: str) -> bool:
    try:
        ways = re.compile(token), re.compile(token, re.IGNORECASE)
    except re.error:  # a reference to a group
        return False
    return all(
        len({way.fullmatch(character) is None for character in characters}) == 1 for way in ways
    )
