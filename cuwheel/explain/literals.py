"""Which texts stand in every match of a regular expression, for a fast search of its lines.

It reads what the catalogue's patterns are written in, as "Regular Expression Syntax" in Python's
library reference has it, without backreferences by number and the flags `s` and `x`.
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_TOKEN = re.compile(
    r"""(?P<look>\(\?<?[=!])
    | (?P<group>\((?:\?(?:P<\w+>|[a-z]*(?:-[a-z]+)?:)|(?!\?)))
    | (?P<end>\))
    | (?P<bar>\|)
    | (?P<repeat>(?:[*+?]|\{(?:\d+(?:,\d*)?|,\d+)\})[+?]?)
    | (?P<one>\(\?P=\w+\)|\[\^?\]?(?:\\.|[^]\\])*\]|\\(?:x[\da-f]{2}|u[\da-f]{4}|.)|.)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_LITERAL = re.compile(r"[^\\.^$\[(]|\[([^\\^])\]|\\(\W)|(\\(?:[aftvnr]|x..|u....))", re.DOTALL)
_OPTIONAL = re.compile(r"[*?]|\{0?,|\{0\}")
_MAX_ALTERNATIVES = 24  # alternatives; more of them are no longer a fast search
_LONG = 8  # characters of a text that is rare enough


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of a pattern: a character, alternatives, or what gives no text.

    Attributes:
        char: in lower case.
        branches: the alternatives; a group without `|` has one.
        once: whether the alternatives are there exactly once.
        breaks: whether it may match the end of a line, by itself.
    """

    char: str = ""
    branches: Sequence[Sequence[_Part]] = field(default=())
    once: bool = True
    breaks: bool = False

    @property
    def may_break(self) -> bool:
        """Whether it, or a part of it, may match the end of a line."""
        return self.breaks or any(part.may_break for branch in self.branches for part in branch)


def required_texts(pattern: re.Pattern[str]) -> tuple[tuple[str, ...], ...]:
    """Sets of texts in lower case; of each set one at least stands in every match.

    The first is the one to look for: a set of rare texts in the line that a match begins in, where
    the pattern may go on in the next, else the set whose shortest text is the longest. Empty: there
    is no such set.

    Raises:
        re.error: the pattern holds what this module doesn't read.
    """
    parts = list(_flat([_Part(branches=_read(_TOKEN.finditer(pattern.pattern)))]))
    found = sorted(dict.fromkeys(_usable(_choices(parts))), key=_selectivity, reverse=True)
    first_line = list(itertools.takewhile(lambda part: not part.may_break, parts))
    begun = _best(_choices(first_line))
    if begun and len(first_line) < len(parts) and _selectivity(begun)[0] >= _LONG:
        found = [begun, *(one for one in found if one != begun)]
    return tuple(tuple(sorted(one)) for one in found)


def _read(tokens: Iterator[re.Match[str]]) -> Sequence[Sequence[_Part]]:
    """The alternatives up to the end of a group, or of the pattern."""
    branches: list[list[_Part]] = [[]]
    for token in tokens:
        if token["end"]:
            break
        if token["bar"]:
            branches.append([])
        elif token["repeat"]:
            branches[-1].append(_repeated(branches[-1].pop(), token["repeat"]))
        elif token["look"]:
            _read(tokens)
            branches[-1].append(_Part())
        elif token["group"]:
            branches[-1].append(_Part(branches=_read(tokens)))
        else:
            branches[-1].append(_one(token["one"]))
    return branches


def _repeated(part: _Part, times: str) -> _Part:
    if _OPTIONAL.match(times):
        return _Part(breaks=part.may_break)
    return _Part(branches=[[part]], once=False)


@functools.cache  # a catalogue holds each character thousands of times
def _one(token: str) -> _Part:
    """A character, a set of them, or a position between two."""
    if token.startswith("(?P="):
        return _Part(breaks=True)
    char = ""
    if literal := _LITERAL.fullmatch(token):
        escaped = (literal[3] or "").encode().decode("unicode_escape")
        char = literal[1] or literal[2] or escaped or token
    return _Part(char=char.lower() * char.isascii(), breaks=bool(re.fullmatch(token, "\n")))


def _flat(parts: Iterable[_Part]) -> Iterator[_Part]:
    """With what groups without alternatives hold in place of these."""
    for part in parts:
        if part.once and len(part.branches) == 1:
            yield from _flat(part.branches[0])
        else:
            yield part


def _choices(parts: Iterable[_Part]) -> list[frozenset[str]]:
    """Sets of texts, of each of which one stands in every match of a sequence."""
    found: list[frozenset[str]] = []
    text = ""
    for part in _flat(parts):
        if part.char:
            text += part.char
            continue
        found += [_begun(text, part)] if text else []
        text = ""
        branches = [_best(_choices(one)) for one in part.branches]
        found += [frozenset().union(*branches)] if branches and all(branches) else []
    return found + ([frozenset({text})] if text else [])


def _begun(text: str, part: _Part) -> frozenset[str]:
    """A text and what alternatives behind it begin with."""
    if not part.branches or len(part.branches) > _MAX_ALTERNATIVES:
        return frozenset({text})
    starts = (itertools.takewhile(lambda one: one.char, _flat(one)) for one in part.branches)
    return frozenset(text + "".join(one.char for one in start) for start in starts)


def _best(choices: list[frozenset[str]]) -> frozenset[str]:
    return max(_usable(choices), key=_selectivity, default=frozenset())


def _usable(choices: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    return [one for one in choices if one and all(one) and len(one) <= _MAX_ALTERNATIVES]


def _selectivity(texts: frozenset[str]) -> tuple[int, int]:
    return min(map(len, texts)), -len(texts)
