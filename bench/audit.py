"""How fast wheels are read: plain unpacking, auditwheel and cuwheel beside one another in one run.

Every contender is a process of its own; they take turns, and the best of all turns counts. Run it
with the engine's environment: `python bench/audit.py [--turns N] [--json FILE] WHEEL...`.
"""  # noqa: INP001 - run by path, not a package

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cuwheel.base.system import process

# What has to be done at least: unpack everything, hash it as RECORD asks, hash the wheel.
_PLAIN = """
import hashlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, open(sys.argv[1], "rb") as whole:
    for entry in wheel.infolist():
        digest = hashlib.sha256()
        with wheel.open(entry) as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    digest = hashlib.sha256()
    while piece := whole.read(1 << 20):
        digest.update(piece)
"""
_CUWHEEL = """
import sys
from pathlib import Path
from cuwheel.check.audit.scan import scan_wheel
scan_wheel(Path(sys.argv[1]), private_paths=("/private/work", "/private/cache"))
"""
_PREFIX = "peak memory of this process, KiB:"
# A process tells its own peak; what is sampled from outside misses short ones.
_TELL = f"""
import re
with open("/proc/self/status") as status:
    print("{_PREFIX}", re.search(r"VmHWM:\\s*(\\d+) kB", status.read())[1])
"""
_AUDITWHEEL = """
import sys
from auditwheel.main import main
sys.argv[:] = ["auditwheel", "show", sys.argv[1]]
main()
"""
_PLAIN_NAME = "zipfile and sha256"
CONTENDERS: Mapping[str, str] = {
    _PLAIN_NAME: _PLAIN,
    "auditwheel show": _AUDITWHEEL,
    "cuwheel": _CUWHEEL,
}
_MB = 1_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One reading of one file.

    Attributes:
        seconds: by the clock.
        cpu_seconds: of all threads, in user and system mode.
        peak_memory: resident, bytes.
    """

    seconds: float
    cpu_seconds: float
    peak_memory: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """The best turn of a contender with a wheel; sizes in bytes."""

    wheel: str
    wheel_size: int
    unpacked_size: int
    contender: str
    best: Turn

    @property
    def speed(self) -> float:
        """Unpacked bytes read in a second."""
        return self.unpacked_size / self.best.seconds


def main(arguments: Sequence[str]) -> None:
    """Measure, show a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("wheels", nargs="+", type=Path)
    asked = parser.parse_args(arguments)
    if missing := [str(wheel) for wheel in asked.wheels if not wheel.is_file()]:
        parser.error(f"there is no {', '.join(missing)}; paths are relative to {Path.cwd()}")
    rows = [row for wheel in asked.wheels for row in measure(wheel, asked.turns)]
    Console(width=120).print(table_of(rows))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def measure(wheel: Path, turns: int) -> list[Row]:
    """The best turn of each contender; they take turns, so that all meet the same machine."""
    taken: dict[str, list[Turn]] = {name: [] for name in CONTENDERS}
    for _ in range(turns):
        for name, script in CONTENDERS.items():
            taken[name].append(take_turn(script, wheel))
    with zipfile.ZipFile(wheel) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    return [
        Row(
            wheel=wheel.name,
            wheel_size=wheel.stat().st_size,
            unpacked_size=unpacked,
            contender=name,
            best=min(of_name, key=lambda turn: turn.seconds),
        )
        for name, of_name in taken.items()
    ]


def table_of(rows: Sequence[Row]) -> Table:
    """A table for people; the ratio is to plain unpacking of the same wheel."""
    table = Table()
    for title in ("wheel, MB packed / unpacked", "contender"):
        table.add_column(title, no_wrap=True)
    for title in ("s", "CPU s", "MB/s unpacked", "MB/s packed", "ratio", "MiB"):
        table.add_column(title, justify="right")
    plain = {row.wheel: row.speed for row in rows if row.contender == _PLAIN_NAME}
    for row in rows:
        name = "-".join(row.wheel.split("-")[:2])
        table.add_row(
            f"{name}, {row.wheel_size / _MB:.0f} / {row.unpacked_size / _MB:.0f}",
            row.contender,
            f"{row.best.seconds:.1f}",
            f"{row.best.cpu_seconds:.1f}",
            f"{row.speed / _MB:.0f}",
            f"{row.wheel_size / row.best.seconds / _MB:.0f}",
            f"{row.speed / plain[row.wheel]:.2f}",
            f"{row.best.peak_memory >> 20}",
        )
    return table


def take_turn(script: str, file: Path) -> Turn:
    """Run a Python script with a file as its argument, in a process of its own."""
    before = _cpu_of_children()
    # auditwheel ends with status 1 for a wheel that it refuses.
    guarded = f"try:\n{_indented(script)}\nexcept SystemExit: pass\n{_TELL}"
    done = process.run(
        [sys.executable, "-c", guarded, file],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    told = next(line for line in done.output.splitlines() if line.startswith(_PREFIX))
    return Turn(
        seconds=done.duration,
        cpu_seconds=_cpu_of_children() - before,
        peak_memory=int(told.removeprefix(_PREFIX)) << 10,
    )


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _indented(script: str) -> str:
    return "\n".join(f"    {line}" for line in script.splitlines())


if __name__ == "__main__":
    main(sys.argv[1:])
