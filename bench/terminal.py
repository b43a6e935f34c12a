"""A command run in a terminal of 80 by 24, and what its screen showed, as an SVG picture.

pyte is the terminal, rich draws it: docs/adr/0042.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

if TYPE_CHECKING:
    from pyte.screens import Char

COLUMNS, LINES = 80, 24
_BLOCK = 65536  # bytes
# The build name behind a kernel's release says where it ran, and nothing about cuwheel.
_KERNEL = re.compile(r"(Linux \d+\.\d+)\.[\w.+-]+")
_COLOURS = {"brown": "yellow", "brightbrown": "bright_yellow"}
# rich's own format without its font, which a browser would fetch from elsewhere.
_SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "Fira Code", "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A command that has ended.

    Attributes:
        seconds: by the clock.
        exit_code: its own.
        screen: what a person saw at the end.
    """

    seconds: float
    exit_code: int
    screen: pyte.Screen


def show(command: str, folder: Path, environ: Mapping[str, str]) -> Shown:
    """Run a line of shell in a terminal of its own; the screen begins with the line itself."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ {command}\r\n".encode())
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    started = time.monotonic()
    child = subprocess.Popen(  # noqa: S603 - a benchmark's own commands
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**environ, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    with contextlib.suppress(OSError):  # EIO: the last one that had it open has closed it
        while block := os.read(ours, _BLOCK):
            stream.feed(block)
    exit_code = child.wait()
    seconds = time.monotonic() - started
    os.close(ours)
    return Shown(seconds=seconds, exit_code=exit_code, screen=screen)


def picture(screen: pyte.Screen, title: str) -> str:
    """The screen as SVG, which loads nothing from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    last = max((line for line, cells in screen.buffer.items() if _has_text(cells)), default=0)
    for line in range(last + 1):
        console.print(_row(screen, line), no_wrap=True, crop=False, highlight=False)
    name = re.sub(r"\W+", "-", title)
    return console.export_svg(title=title, code_format=_SVG, unique_id=name)


def _has_text(cells: Mapping[int, Char]) -> bool:
    return any(cell.data.strip() for cell in cells.values())


def _row(screen: pyte.Screen, line: int) -> Text:
    row = Text()
    for column in range(COLUMNS):
        cell = screen.buffer[line][column]
        row.append(cell.data, _style(cell))
    shorter = _KERNEL.search(row.plain)
    if shorter:
        row = Text.assemble(row[: shorter.end(1)], row[shorter.end() :])
    row.rstrip()
    return row


def _style(cell: Char) -> Style:
    return Style(
        color=_colour(cell.fg),
        bgcolor=_colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _colour(name: str) -> str | None:
    """Rich's name for one of pyte's."""
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    return _COLOURS.get(name, name.replace("bright", "bright_"))


def median_seconds(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> float:
    """The median of eleven runs of a command, its output thrown away; the first is not counted."""
    taken: list[float] = []
    for _ in range(12):
        started = time.monotonic()
        subprocess.run(  # noqa: S603 - as above
            command, cwd=folder, env=dict(environ), check=False, capture_output=True, timeout=600
        )
        taken.append(time.monotonic() - started)
    return sorted(taken[1:])[5]
