"""PTX as text: what a comparison reads of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_FUNCTION = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)?\.(?:entry|func)\b")


_FUNCTION_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")


_DEBUG_LINE = re.compile(r"^\s*\.(?:file|loc)\b")


_DEBUG_SECTION = re.compile(r"^\s*\.section\s+\.debug")


@dataclass(frozen=True, kw_only=True)
class Ptx:
    """PTX.

    Attributes:
        functions: each function's name with its lines.
        rest: all other lines: version, target, variables.
        debug: lines for the debugger, in functions too.
    """

    functions: dict[str, tuple[str, ...]]
    rest: tuple[str, ...]
    debug: tuple[str, ...]


def read_ptx(content: bytes) -> Ptx:
    """Take PTX apart, line by line; it needs no more than where a function begins and ends."""
    functions: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    debug: list[str] = []
    lines = iter(content.decode("utf-8", "replace").splitlines())
    for line in lines:
        if _DEBUG_SECTION.match(line):
            debug += [line, *_block(lines)]
        elif _FUNCTION.match(line):
            body = [line] if line.rstrip().endswith(";") else [line, *_block(lines)]
            debug += filter(_DEBUG_LINE.match, body)
            kept = tuple(text for text in body if not _DEBUG_LINE.match(text))
            name = _FUNCTION_NAME.search(" ".join(kept))
            functions[name[1] if name else line] = kept
        elif _DEBUG_LINE.match(line):
            debug.append(line)
        elif line.strip():
            rest.append(line)
    return Ptx(functions=functions, rest=tuple(rest), debug=tuple(debug))


def _block(lines: Iterator[str]) -> list[str]:
    """Lines up to the brace that closes the first one; a declaration ends with a semicolon."""
    taken, depth, has_begun = [], 0, False
    for line in lines:
        taken.append(line)
        depth += line.count("{") - line.count("}")
        has_begun = has_begun or "{" in line
        if depth <= 0 and (has_begun or line.rstrip().endswith(";")):
            break
    return taken
