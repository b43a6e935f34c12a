"""Names of the C API that releases of CPython export: python_functions.txt.

Read from libpython of 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0 (`nm -D
--defined-only`), private names too: lines with releases of Python 3, each followed by its names.
Builds without the GIL and debug builds have more.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

RELEASES = range(7, 14)


@cache
def python_functions() -> dict[str, frozenset[int]]:
    """Return the minor releases of Python 3 that export each name."""
    exporting: frozenset[int] = frozenset()
    names: dict[str, frozenset[int]] = {}
    for word in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split():
        if word[0].isdecimal():
            exporting = frozenset(map(int, word.split(",")))
        else:
            names[word] = exporting
    return names
