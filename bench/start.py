"""How long commands take before they do anything: their processor time against Python's own start.

Each is a process of its own; they take turns, and the best of all turns counts.
`nox -s bench -- start [--turns N] [--json FILE]`.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cuwheel.base.system import process

_PYTHON = "Python with rich and packaging"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    _PYTHON: ("-c", "import rich.console, rich.progress, packaging.requirements"),
    "audit --help": ("-m", "cuwheel", "audit", "--help"),
    "diagnose --help": ("-m", "cuwheel", "diagnose", "--help"),
    "pick --help": ("-m", "cuwheel", "pick", "--help"),
    "a build's refused --dist": (
        *("-m", "cuwheel", "build", "cutensornet-sample-130"),
        *("--dist", "/proc/none", "--work", "/proc/none"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """The best turn of a command.

    Attributes:
        cpu_seconds: of it and of the programs that it started.
        ratio: of these to Python's.
    """

    command: str
    seconds: float
    cpu_seconds: float
    ratio: float


def main(arguments: Sequence[str]) -> None:
    """Measure, show a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = measure(options.turns)
    table = Table("command", "s", "CPU s", "times Python's")
    for row in rows:
        table.add_row(row.command, *(f"{v:.2f}" for v in (row.seconds, row.cpu_seconds, row.ratio)))
    Console(width=120).print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def measure(turns: int) -> list[Row]:
    """Return the best turn of each command, by processor time."""
    taken = [{name: _take_turn(words) for name, words in COMMANDS.items()} for _ in range(turns)]
    best = {
        name: min((turn[name] for turn in taken), key=lambda turn: turn[1]) for name in COMMANDS
    }
    idle = best[_PYTHON][1]
    return [
        Row(command=name, seconds=seconds, cpu_seconds=cpu, ratio=cpu / idle)
        for name, (seconds, cpu) in best.items()
    ]


def _take_turn(words: tuple[str, ...]) -> tuple[float, float]:
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process.run([sys.executable, *words], env=os.environ, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - started, cpu


if __name__ == "__main__":
    main(sys.argv[1:])
