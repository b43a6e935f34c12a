"""Which texts stand in every match of a regular expression, for a fast search of its lines."""

from __future__ import annotations

import itertools
import re
import sys
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as codes
    import sre_parse as parser

if TYPE_CHECKING:
    from collections.abc import Iterable

_WITH_NEWLINE = {codes.CATEGORY_SPACE, codes.CATEGORY_NOT_WORD, codes.CATEGORY_NOT_DIGIT}
_MOST = 24  # alternatives; more of them are no longer a fast search
_LONG = 8  # characters of a text that is rare enough
_NEWLINE = ord("\n")


def required_texts(pattern: re.Pattern[str]) -> tuple[tuple[str, ...], ...]:
    """Sets of texts in lower case; of each set one at least stands in every match.

    The first is the one to look for: a set of rare texts in the line that a match begins in, where
    the pattern may go on in the next, else the set whose shortest text is the longest. Empty: there
    is no such set.
    """
    parsed: Any = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    found = sorted(dict.fromkeys(_usable(_choices(parsed))), key=_worth, reverse=True)
    first_line = list(itertools.takewhile(lambda item: not _may_break(*item), parsed))
    begun = _best(_choices(first_line))
    if begun and len(first_line) < len(parsed) and _worth(begun)[0] >= _LONG:
        found = [begun, *(one for one in found if one != begun)]
    return tuple(tuple(sorted(one)) for one in found)


def _may_break(code: Any, argument: Any) -> bool:
    """Whether a part of a pattern may match the end of a line."""
    if code in {codes.ASSERT, codes.ASSERT_NOT, codes.AT, codes.ANY}:
        return False
    if code is codes.SUBPATTERN:
        return any(_may_break(*item) for item in argument[-1])
    if code in {codes.MAX_REPEAT, codes.MIN_REPEAT}:
        return any(_may_break(*item) for item in argument[2])
    if code is codes.BRANCH:
        return any(_may_break(*item) for branch in argument[1] for item in branch)
    if code is codes.IN:
        is_negated = argument[0][0] is codes.NEGATE
        return is_negated != any(_is_newline(*item) for item in argument)
    # A newline itself, or any character but another one.
    return bool((code is codes.LITERAL) == (argument == _NEWLINE))


def _is_newline(code: Any, argument: Any) -> bool:
    """Whether a member of a set of characters is, or holds, the newline."""
    if code is codes.CATEGORY:
        return argument in _WITH_NEWLINE
    if code is codes.RANGE:
        return bool(argument[0] <= _NEWLINE <= argument[1])
    return bool(code is codes.LITERAL and argument == _NEWLINE)


def _choices(parsed: Iterable[tuple[Any, Any]]) -> list[frozenset[str]]:
    """Sets of texts, of each of which one stands in every match of a sequence."""
    found: list[frozenset[str]] = []
    text = ""
    for code, argument in parsed:
        if code is codes.LITERAL and chr(argument).isascii():
            text += chr(argument).lower()
            continue
        found += [_begun(text, code, argument)] if text else []
        text = ""
        found += _of_part(code, argument)
    return found + ([frozenset({text})] if text else [])


def _begun(text: str, code: Any, argument: Any) -> frozenset[str]:
    """A text and what alternatives behind it begin with: Python's parser takes that apart."""
    while code is codes.SUBPATTERN and len(argument[-1]) == 1:
        ((code, argument),) = argument[-1]
    if code is not codes.BRANCH or len(argument[1]) > _MOST:
        return frozenset({text})
    return frozenset(text + _leading(branch) for branch in argument[1])


def _leading(parsed: Iterable[tuple[Any, Any]]) -> str:
    text = ""
    for code, argument in parsed:
        if code is not codes.LITERAL or not chr(argument).isascii():
            break
        text += chr(argument).lower()
    return text


def _of_part(code: Any, argument: Any) -> list[frozenset[str]]:
    if code is codes.SUBPATTERN:
        return _choices(argument[-1])
    if code in {codes.MAX_REPEAT, codes.MIN_REPEAT} and argument[0] > 0:
        return _choices(argument[2])
    if code is codes.BRANCH:
        branches = [_best(_choices(one)) for one in argument[1]]
        return [frozenset().union(*branches)] if all(branches) else []
    return []


def _best(choices: list[frozenset[str]]) -> frozenset[str]:
    return max(_usable(choices), key=_worth, default=frozenset())


def _usable(choices: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    return [one for one in choices if one and all(one) and len(one) <= _MOST]


def _worth(texts: frozenset[str]) -> tuple[int, int]:
    return min(map(len, texts)), -len(texts)
