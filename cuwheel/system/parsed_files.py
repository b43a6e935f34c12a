"""Settings and modules of packages, parsed but not run: whatever stands in them, an error says so.

What nests a hundred thousand levels deep ends a parser otherwise: with Python 3.10 `ast` may even
end the process, which nothing here can prevent.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import tomli

from cuwheel import limits
from cuwheel.system.whole_files import read_bytes, read_text

if TYPE_CHECKING:
    from pathlib import Path

_DEEPEST = 1000  # levels of a syntax tree, as many as Python lets a function call itself


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file, such as `pyproject.toml`; bytes that are no UTF-8 are replaced.

    Raises:
        OSError: it can't be read, or is larger than any.
        ValueError: it is no TOML, or nested without end.
    """
    try:
        return tomli.loads(read_text(path, errors="replace"))
    except RecursionError as problem:
        raise ValueError(str(problem)) from None


def read_module(path: Path) -> ast.Module:
    """The syntax tree of a Python file.

    Raises:
        OSError: it can't be read, or is larger than any.
        ValueError: it is no Python of this release, or nested without end.
    """
    try:
        tree = ast.parse(read_bytes(path, limit=limits.PYTHON))
    except SyntaxError as problem:
        raise ValueError(str(problem)) from problem
    except (MemoryError, RecursionError) as problem:
        raise ValueError(f"it is nested too deeply: {problem}") from None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):  # from 3.14 on Python parses what it can't walk
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise ValueError("it is nested too deeply")
