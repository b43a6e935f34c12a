"""Lines of an event log, as launcher and gate write them; a test changes what it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cuwheel.build.compile.events import EVENTS_LOG, read_events
from cuwheel.lab.profile.timeline import Timeline, make_timeline

SOURCE = "/cuwheel/source/csrc/"
GIB = 1 << 30

_COMPILE = {
    "kind": "compile",
    "id": "1",
    "name": "nvcc",
    "file": SOURCE + "a.cu",
    "archs": ["90"],
    "start": 0.0,
    "end": 10.0,
    "status": 0,
    "cached": "ccache",
}
_TOOL = {
    "kind": "tool",
    "compile": "1",
    "name": "cicc",
    "file": SOURCE + "a.cu",
    "arch": "90",
    "asked": 1.0,
    "start": 1.0,
    "end": 9.0,
    "peak": GIB,
    "expected": 2 * GIB,
    "status": 0,
    "tries": 1,
}


def compile_line(**changes: Any) -> str:
    """Ten seconds of nvcc that came through a cache."""
    return json.dumps({**_COMPILE, **changes})


def tool_line(**changes: Any) -> str:
    """Eight seconds of cicc within that compile."""
    made = {**_TOOL, **changes}
    return json.dumps({"called": made["asked"], **made})


def write_log(folder: Path, *lines: str) -> Path:
    """A log of these lines."""
    path = folder / EVENTS_LOG
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def large_log(folder: Path, compiles: int, lanes: int) -> Path:
    """As many compiles as a large package has, each with its tools; every fourth is a hit."""
    lines = []
    for number in range(compiles):
        start = number // lanes * 60.0
        facts = {"id": f"c{number}", "file": f"{SOURCE}k{number}.cu", "start": start}
        if number % 4 == 0:
            lines.append(compile_line(**facts, end=start + 0.02))
            continue
        for place, name in enumerate(("g++", "cudafe++", "cicc", "ptxas", "cicc", "ptxas")):
            span = {"asked": start + place * 8, "start": start + place * 8 + place % 2}
            lines.append(tool_line(compile=f"c{number}", name=name, **span, end=span["asked"] + 8))
        lines.append(compile_line(**facts, end=start + 50))
    return write_log(folder, *lines)


def timeline_of(folder: Path, *lines: str) -> Timeline:
    """The timeline of a log of these lines."""
    return make_timeline(read_events(write_log(folder, *lines)))


def two_files(**changes: Any) -> tuple[str, ...]:
    """a.cu from 0 to 10 s, b.cu from 2 to 8 s; the changes are of b.cu's tool."""
    return (
        tool_line(),
        compile_line(),
        tool_line(compile="2", asked=2, start=3, end=7, **changes),
        compile_line(id="2", file=SOURCE + "b.cu", start=2, end=8),
    )
