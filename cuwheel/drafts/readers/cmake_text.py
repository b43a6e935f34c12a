"""CMake's language as a list of commands: names, arguments, lines, the `if` around each.

Grammar: cmake-language(7), "Syntax". Variables stay as they are written: what they hold is only
known while CMake runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<comment> \#\[(?P<c>=*)\[ .*? \](?P=c)\] | \#[^\n]* )
    | (?P<bracket> \[(?P<b>=*)\[ .*? \](?P=b)\] )
    | (?P<quoted> " (?: \\. | [^\\"] )* " )
    | (?P<paren> [()] )
    | (?P<word> (?: \\. | \$\{[^}]*\} | \$ENV\{[^}]*\} | [^\s()\#"\\] | "(?:\\.|[^\\"])*" )+ )
    | (?P<space> \s+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command.

    Attributes:
        name: in lower case.
        arguments: without quotes; parentheses inside are arguments too, as in CMake.
        line: where it begins.
        guard: the conditions of the `if`s around it, joined by AND; empty: it always runs, as far
            as this file tells.
    """

    name: str
    arguments: tuple[str, ...]
    line: int
    guard: str


def read_commands(text: str) -> Iterator[Command]:
    """Every command of a file; what is no CMake is skipped."""
    guards: list[list[str]] = []
    for name, arguments, line in _calls(text):
        words = " ".join(arguments)
        if name == "elseif" and guards:
            guards[-1] = [*(_negated(one) for one in guards[-1][-1:]), words]
        elif name == "else" and guards:
            guards[-1] = [_negated(one) for one in guards[-1][-1:]]
        elif name == "endif" and guards:
            guards.pop()
        guard = " AND ".join(one for level in guards for one in level)
        yield Command(name=name, arguments=arguments, line=line, guard=guard)
        if name == "if":
            guards.append([words])


def _negated(condition: str) -> str:
    return f"NOT ({condition})"


def _calls(text: str) -> Iterator[tuple[str, tuple[str, ...], int]]:
    tokens = [token for token in _tokens(text) if token[0] not in {"comment", "space"}]
    position = 0
    while position < len(tokens) - 1:
        kind, name, line = tokens[position]
        position += 1
        if kind != "word" or not _NAME.fullmatch(name) or tokens[position][1] != "(":
            continue
        arguments: list[str] = []
        depth = 1
        while depth and position < len(tokens) - 1:
            position += 1
            kind, value, _ = tokens[position]
            depth += {"(": 1, ")": -1}.get(value, 0) if kind == "paren" else 0
            if depth:
                arguments.append(_plain(kind, value))
        position += 1
        yield name.lower(), tuple(arguments), line


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    position, line = 0, 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:  # a lone quote: the file is no sound CMake from here on
            return
        yield str(found.lastgroup if found.lastgroup not in {"c", "b"} else ""), found[0], line
        line += found[0].count("\n")
        position = found.end()


def _plain(kind: str, value: str) -> str:
    if kind == "quoted":
        return value[1:-1]
    if kind == "bracket":
        return value[value.index("[", 1) + 1 : value.rindex("]", 0, -1)]
    return value
