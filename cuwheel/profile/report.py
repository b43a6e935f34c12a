"""The profile of a build: a picture, a trace, and on the terminal the slowest files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import rich.console
import rich.markup
import rich.table

from cuwheel.profile.advice import advise
from cuwheel.profile.chrome_trace import trace_text
from cuwheel.profile.picture import svg_text
from cuwheel.profile.timeline import make_timeline
from cuwheel.system.files import write_atomically
from cuwheel.system.output.documents import Schema
from cuwheel.system.quantities import show_share, show_size, show_time

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.build.launcher.events import Events
    from cuwheel.profile.timeline import Timeline
    from cuwheel.system.console import Console


PICTURE = "profile.svg"
TRACE = "profile.trace.json"
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What `write_profile` made.

    Attributes:
        picture: an SVG file that needs no other.
        trace: Chrome's trace event format.
        timeline: what both show.
    """

    picture: Path
    trace: Path
    timeline: Timeline


def write_profile(events: Events, folder: Path, title: str) -> Profile:
    """Write a build's picture and trace into a folder.

    Args:
        events: of the build.
        folder: is made if it isn't there; files of an earlier profile are replaced.
        title: names the build.

    Raises:
        OSError: the folder can't be written.
    """
    timeline = make_timeline(events)
    write_atomically(folder / PICTURE, svg_text(timeline, title))
    write_atomically(folder / TRACE, trace_text(timeline, title))
    return Profile(picture=folder / PICTURE, trace=folder / TRACE, timeline=timeline)


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


def profile_document(profile: Profile, title: str) -> ProfileDocument:
    """A profile as a document.

    Args:
        profile: of a build.
        title: names the build.
    """
    timeline = profile.timeline
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
        advice=tuple(advise(timeline)),
        picture=profile.picture,
        trace=profile.trace,
    )


def print_profile(profile: Profile, terminal: rich.console.Console, console: Console) -> None:
    """Print the slowest ten, what stands out, and where the files are.

    Args:
        profile: of a build.
        terminal: where to.
        console: says how much: all compiles where it is verbose, the files alone where quiet.
    """
    timeline = profile.timeline
    if not console.is_quiet:
        if timeline.jobs:
            shown = len(timeline.jobs) if console.is_verbose else _SHOWN
            terminal.print(_slowest(timeline, shown))
            terminal.print()
        for line in advise(timeline):
            terminal.print(f"- {line}", markup=False)
        terminal.print()
    for name, path in (("picture", profile.picture), ("trace", profile.trace)):
        terminal.print(f"{name:<9}{path}", markup=False, soft_wrap=True)


def _slowest(timeline: Timeline, count: int) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("slowest", overflow="fold")
    for heading in ("time", "share", "waited", "peak"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("archs", overflow="fold")
    for job in timeline.slowest(count):
        table.add_row(
            rich.markup.escape(job.file),
            show_time(job.worked),
            show_share(timeline.share(job)),
            show_time(job.waited) if job.waited else "",
            show_size(job.peak) if job.peak else "",
            rich.markup.escape(" ".join(job.archs)),
        )
    return table
