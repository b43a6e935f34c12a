"""A build's timeline as a page: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import html
import itertools
import json
import string
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.build.profile.advice import advise
from cuwheel.system.quantities import show_share, show_size, show_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.build.profile.timeline import Job, Phase, Timeline


_FOLDER = Path(__file__).parent / "html"
_MIB = 1 << 20
# Tools that share a colour; profile.css has one for each.
_FAMILIES = ("cicc", "ptxas", "cudafe", "host", "other")
_FAMILY = {
    "cicc": "cicc",
    "ptxas": "ptxas",
    "cudafe++": "cudafe",
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "cc1", "cc1plus"), "host"),
}
_WORDS = {"hit": "from the cache", "done": "done", "failed": "failed", "cut off": "cut off"}
_CLASSES = {"hit": "hit", "failed": "failed", "cut off": "cut"}


class _Template(string.Template):
    delimiter = "@@"  # `$` is JavaScript's


def page_text(timeline: Timeline, title: str) -> str:
    """The page as HTML text.

    Args:
        timeline: what it shows.
        title: names the build, in plain text.
    """
    begun = datetime.fromtimestamp(timeline.begun, timezone.utc)
    return _Template(_read("profile.html")).substitute(
        title=html.escape(title),
        style=_read("profile.css"),
        script=_read("profile.js"),
        begun=f"{begun:%Y-%m-%d %H:%M:%S} UTC" if timeline.jobs else "",
        figures="\n".join(_figures(timeline)),
        advice="\n".join(f"<li>{html.escape(line)}" for line in advise(timeline)),
        rows="\n".join(_row(job, timeline) for job in timeline.slowest(len(timeline.jobs))),
        # Within a script `<` could end it; in JSON it may be written as an escape.
        data=json.dumps(_data(timeline), separators=(",", ":")).replace("<", "\\u003c"),
    )


def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _figures(timeline: Timeline) -> Iterator[str]:
    asked = sum(count.asked for count in timeline.hits)
    hits = sum(count.hits for count in timeline.hits)
    at_once = timeline.worked / timeline.elapsed if timeline.elapsed else 0
    in_languages = ", ".join(f"{count.language} {count.compiles}" for count in timeline.hits)
    by_language = ", ".join(
        f"{count.language} {count.hits} of {count.asked}" for count in timeline.hits if count.asked
    )
    for name, value, more in (
        ("Elapsed", show_time(timeline.elapsed), "first start to last end"),
        ("Compiles", str(len(timeline.jobs)), in_languages),
        ("From the cache", f"{hits} of {asked}", by_language or "no cache was asked"),
        ("Compile time", show_time(timeline.worked), f"{at_once:.1f} compiles at once on average"),
        ("Waited for memory", show_time(timeline.waited), "of all compiles together"),
        ("Peak memory", show_size(timeline.peak), "of all tools together, at most"),
    ):
        small = f"<small>{html.escape(more)}</small>"
        yield f"<div><dt>{name}</dt><dd>{html.escape(value)}{small}</dd></div>"


def _row(job: Job, timeline: Timeline) -> str:
    share = timeline.share(job)
    kind = f" class={_CLASSES[job.state]}" if job.state in _CLASSES else ""
    return (
        f"<tr><td>{html.escape(job.file)}<td>{html.escape(job.name)}<td{kind}>{_WORDS[job.state]}"
        f"<td data-v={job.worked:.3f}>{show_time(job.worked)}"
        f"<td data-v={share:.6f}>{html.escape(show_share(share))}"
        f"<td data-v={job.waited:.3f}>{show_time(job.waited) if job.waited else ''}"
        f"<td data-v={job.peak}>{show_size(job.peak) if job.peak else ''}"
        f"<td data-v={job.start:.3f}>{show_time(job.start)}<td>{html.escape(_archs(job))}"
    )


def _archs(job: Job) -> str:
    return " ".join(f"sm_{arch}" for arch in job.archs)


def _data(timeline: Timeline) -> dict[str, Any]:
    """What profile.js reads; its beginning tells the places of the values."""
    names: dict[str, int] = {}
    return {
        "lanes": timeline.lanes,
        "elapsed": _milliseconds(timeline.elapsed),
        "families": _FAMILIES,
        "jobs": [_job_data(job, names) for job in timeline.jobs],
        "names": list(names),  # filled by the line above
        "memory": list(itertools.chain.from_iterable(_memory_data(timeline))),
    }


def _job_data(job: Job, names: dict[str, int]) -> list[Any]:
    start = _milliseconds(job.start)
    return [
        job.lane,
        job.file,
        job.name,
        job.state,
        start,
        _milliseconds(job.end) - start,
        _milliseconds(job.waited),
        job.peak // _MIB,
        _archs(job),
        [_tool_data(part, start, names) for part in job.parts],
    ]


def _tool_data(part: Phase, job_start: int, names: dict[str, int]) -> list[int]:
    tool = part.tool
    asked, start, end = map(_milliseconds, (tool.asked, tool.start, tool.end))
    return [
        names.setdefault(part.name, len(names)),
        _FAMILIES.index(_FAMILY.get(tool.name, "other")),
        part.row,
        asked - job_start,
        start - asked,
        end - start,
        tool.peak // _MIB,
        tool.expected // _MIB,
        tool.status,
        tool.tries,
    ]


def _memory_data(timeline: Timeline) -> Iterable[tuple[int, int, int]]:
    """Milliseconds since the point before, MiB expected, MiB taken."""
    before = 0
    for point in timeline.memory:
        time = _milliseconds(point.time)
        yield time - before, point.expected // _MIB, point.peak // _MIB
        before = time


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
