"""The texts in every match of a regular expression, for a fast search of its lines.

It reads the syntax of the catalogue's patterns, "Regular Expression Syntax" in Python's library
reference, without backreferences by number and the flags `s` and `x`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

TOKEN = re.compile(
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
_MAX_ALTERNATIVES = 24  # more of them are not a fast search
_LONG = 8  # characters of a rare text


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of a pattern: a character, alternatives, or a part without text.

    Attributes:
        branches: the alternatives; a group without `|` has one.
    """

    char: str = ""
    branches: Sequence[Sequence[_Part]] = field(default=())
    once: bool = True
    breaks: bool = False

    @property
    def may_break(self) -> bool:
        """True if it, or a part of it, may match the end of a line."""
        return self.breaks or any(part.may_break for branch in self.branches for part in branch)


def required_texts(pattern: re.Pattern[str]) -> tuple[tuple[str, ...], ...]:
    """Return sets of lower-case texts; every match contains at least one text of each set.

    The first is for the search: if the pattern may go on in the next line, a set of rare texts in
    the line of the match's begin, else the set with the longest shortest text. Empty: there is no
    such set.

    Raises:
        re.error: the pattern has unsupported syntax.
    """
    parts = list(_flat([_Part(branches=_read(TOKEN.finditer(pattern.pattern)))]))
    choices = sorted(dict.fromkeys(_usable(_choices(parts))), key=_selectivity, reverse=True)
    first_line = list(itertools.takewhile(lambda part: not part.may_break, parts))
    start = _best(_choices(first_line))
    if start and len(first_line) < len(parts) and _selectivity(start)[0] >= _LONG:
        choices = [start, *(texts for texts in choices if texts != start)]
    return tuple(tuple(sorted(texts)) for texts in choices)


def _read(tokens: Iterator[re.Match[str]]) -> Sequence[Sequence[_Part]]:
    """Return the alternatives up to the end of a group, or of the pattern."""
    branches: list[list[_Part]] = [[]]
    for token in tokens:
        if token["end"]:
            break
        if token["bar"]:
            branches.append([])
        elif token["repeat"]:
            part = branches[-1].pop()
            is_optional = _OPTIONAL.match(token["repeat"])
            branches[-1].append(
                _Part(breaks=part.may_break)
                if is_optional
                else _Part(branches=[[part]], once=False)
            )
        elif token["look"]:
            _read(tokens)
            branches[-1].append(_Part())
        elif token["group"]:
            branches[-1].append(_Part(branches=_read(tokens)))
        else:
            branches[-1].append(_single(token["one"]))
    return branches


@functools.cache  # a catalogue has each character thousands of times
def _single(token: str) -> _Part:
    """Return the part for a character, a set of them, or a position between two."""
    if token.startswith("(?P="):
        return _Part(breaks=True)
    char = ""
    if literal := _LITERAL.fullmatch(token):
        escaped = (literal[3] or "").encode().decode("unicode_escape")
        char = literal[1] or literal[2] or escaped or token
    is_safe = (
        char.isascii() or char.lower() == char.upper()
    )  # the search ignores ASCII's case alone
    return _Part(char=char.lower() * is_safe, breaks=bool(re.fullmatch(token, "\n")))


def _flat(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Yield the parts, with groups without alternatives replaced by their content."""
    for part in parts:
        if part.once and len(part.branches) == 1:
            yield from _flat(part.branches[0])
        else:
            yield part


def _choices(parts: Iterable[_Part]) -> list[frozenset[str]]:
    """Return sets of texts, one of each of which is in every match of a sequence."""
    choices: list[frozenset[str]] = []
    text = ""
    for part in _flat(parts):
        if part.char:
            text += part.char
            continue
        choices += [_with_starts(text, part)] if text else []
        text = ""
        branches = [_best(_choices(branch)) for branch in part.branches]
        choices += [frozenset().union(*branches)] if branches and all(branches) else []
    return choices + ([frozenset({text})] if text else [])


def _with_starts(text: str, part: _Part) -> frozenset[str]:
    """Return a text, extended by the start of each alternative after it."""
    if not part.branches or len(part.branches) > _MAX_ALTERNATIVES:
        return frozenset({text})
    starts = (itertools.takewhile(lambda p: p.char, _flat(branch)) for branch in part.branches)
    return frozenset(text + "".join(p.char for p in start) for start in starts)


def _best(choices: list[frozenset[str]]) -> frozenset[str]:
    return max(_usable(choices), key=_selectivity, default=frozenset())


def _usable(choices: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    return [texts for texts in choices if texts and all(texts) and len(texts) <= _MAX_ALTERNATIVES]


def _selectivity(texts: frozenset[str]) -> tuple[int, int]:
    return min(map(len, texts)), -len(texts)
