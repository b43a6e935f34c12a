"""The profile of a build: picture, trace, JSON document and table of the slowest files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import rich.console
import rich.markup
import rich.table

from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.quantities import show_share, show_size, show_time
from cuwheel.build.compile.events import Events
from cuwheel.lab.profile.advice import advise
from cuwheel.lab.profile.chrome_trace import trace_text
from cuwheel.lab.profile.picture import Stages, svg_text
from cuwheel.lab.profile.timeline import make_timeline

PICTURE = "profile.svg"
TRACE = "profile.trace.json"
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class ProfiledCompile:
    """One compile of a build.

    Attributes:
        file: the source.
        worked: seconds.
        share: of the time of all compiles.
        waited: seconds in which it waited for memory.
        peak: bytes of memory, the most that it took; 0: not known.
        archs: compute capabilities that it was for.
    """

    file: str
    worked: float
    share: float
    waited: float
    peak: int
    archs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ProfileDocument:
    """What `profile --json` prints, a line for each target.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        compiles: the slowest first.
        advice: what stands out, in sentences.
        picture: path of an SVG file.
        trace: path of a file in Chrome's trace event format.
    """

    SCHEMA: ClassVar[Schema] = Schema("profile", "1.0")

    target: str
    compiles: tuple[ProfiledCompile, ...]
    advice: tuple[str, ...]
    picture: Path
    trace: Path


def write_profile(events: Events, folder: Path, title: str, stages: Stages = ()) -> ProfileDocument:
    """Write a build's picture and trace into a folder, over those of an earlier profile.

    Raises:
        OSError: the folder can't be written.
    """
    timeline = make_timeline(events)
    write_atomically(folder / PICTURE, svg_text(timeline, title, stages))
    write_atomically(folder / TRACE, trace_text(timeline, title))
    return ProfileDocument(
        target=title,
        compiles=tuple(
            ProfiledCompile(
                file=job.file,
                worked=job.worked,
                share=timeline.share(job),
                waited=job.waited,
                peak=job.peak,
                archs=tuple(job.archs),
            )
            for job in timeline.slowest(len(timeline.jobs))
        ),
        advice=advise(timeline),
        picture=folder / PICTURE,
        trace=folder / TRACE,
    )


def print_profile(
    profile: ProfileDocument, terminal: rich.console.Console, console: Console
) -> None:
    """Print the slowest ten compiles (verbose: all), advice, and the paths (quiet: only these)."""
    if not console.is_quiet:
        if profile.compiles:
            _print_slowest(profile.compiles[: None if console.is_verbose else _SHOWN], terminal)
        for line in profile.advice:
            terminal.print(f"- {line}", markup=False)
        terminal.print()
    for name, path in (("picture", profile.picture), ("trace", profile.trace)):
        terminal.print(f"{name:<9}{path}", markup=False, soft_wrap=True)


def _print_slowest(compiles: Sequence[ProfiledCompile], terminal: rich.console.Console) -> None:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("slowest", overflow="fold")
    for heading in ("time", "share", "waited", "peak"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("archs", overflow="fold")
    for compiled in compiles:
        table.add_row(
            rich.markup.escape(compiled.file),
            show_time(compiled.worked),
            show_share(compiled.share),
            show_time(compiled.waited) if compiled.waited else "",
            show_size(compiled.peak) if compiled.peak else "",
            rich.markup.escape(" ".join(compiled.archs)),
        )
    terminal.print(table)
    terminal.print()
