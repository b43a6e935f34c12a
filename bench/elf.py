"""How fast ELF files are read: pyelftools and cuwheel, which have to find the same facts.

Each reading is a process of its own; the contenders take turns, and the best of all turns counts.
`nox -s bench -- elf [--turns N] [--json FILE] LIBRARY...`.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.audit import Turn, take_turn
from bench.elf_readers import with_cuwheel, with_pyelftools
from cuwheel.base.errors import UsageError

_IDLE = "Python's start"
_SCRIPT = "import pathlib, sys; from bench.elf_readers import {0}; {0}(pathlib.Path(sys.argv[1]))"
CONTENDERS: Mapping[str, str] = {
    _IDLE: "import pathlib, sys",
    "pyelftools": _SCRIPT.format("with_pyelftools"),
    "cuwheel": _SCRIPT.format("with_cuwheel"),
}
_MB = 1_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Row:
    """The best turn of a contender with a library of this size in bytes."""

    library: str
    size: int
    contender: str
    best: Turn


def main(arguments: Sequence[str]) -> None:
    """Measure, show a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("libraries", nargs="+", type=Path)
    asked = parser.parse_args(arguments)
    if missing := [str(path) for path in asked.libraries if not path.is_file()]:
        parser.error(f"there is no {', '.join(missing)}; paths are relative to {Path.cwd()}")
    rows = [row for path in asked.libraries for row in measure(path, asked.turns)]
    Console(width=120).print(table_of(rows))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def measure(library: Path, turns: int) -> list[Row]:
    """The best turn of each contender, by processor time.

    Raises:
        UsageError: they don't find the same facts, so that there is nothing to compare.
    """
    ours, theirs = with_cuwheel(library), with_pyelftools(library)
    if different := [name for name in ours._fields if getattr(ours, name) != getattr(theirs, name)]:
        raise UsageError(
            f"{library.name} can't be compared", why=f"the readers differ in {', '.join(different)}"
        )
    taken: dict[str, list[Turn]] = {name: [] for name in CONTENDERS}
    for _ in range(turns):
        for name, script in CONTENDERS.items():
            taken[name].append(take_turn(script, library))
    return [
        Row(
            library=library.name,
            size=library.stat().st_size,
            contender=name,
            best=min(of_name, key=lambda turn: turn.cpu_seconds),
        )
        for name, of_name in taken.items()
    ]


def table_of(rows: Sequence[Row]) -> Table:
    """A table for people; Python's start, which all need, is taken off the ratio."""
    table = Table()
    for title in ("library, MB", "contender"):
        table.add_column(title, no_wrap=True)
    for title in ("s", "CPU s", "times cuwheel's", "MiB"):
        table.add_column(title, justify="right")
    for row in rows:
        same = [one for one in rows if one.library == row.library]
        seconds = {one.contender: one.best.cpu_seconds for one in same}
        ratio = (seconds[row.contender] - seconds[_IDLE]) / (seconds["cuwheel"] - seconds[_IDLE])
        table.add_row(
            f"{row.library}, {row.size / _MB:.0f}",
            row.contender,
            f"{row.best.seconds:.2f}",
            f"{row.best.cpu_seconds:.2f}",
            f"{ratio:.1f}",
            f"{row.best.peak_memory >> 20}",
        )
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
