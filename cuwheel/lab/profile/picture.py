"""A build's timeline as a self-contained SVG without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from xml.etree import ElementTree as ET

from cuwheel.base.system.output.terminal import plain
from cuwheel.base.system.quantities import show_size, show_time
from cuwheel.lab.profile.advice import advise
from cuwheel.lab.profile.timeline import CompileJob, MemoryPoint, Phase, Timeline

# In the picture's own units, which a viewer shows as pixels unless it scales.
_WIDTH, _LEFT, _RIGHT = 1200, 64, 24
_TOP = 108  # of the first lane; above it are title, figures, legend and clock
_TALLEST_LANE, _LEAST_LANE, _ALL_LANES = 40.0, 4.0, 640.0
_LABELLED = 20.0  # a lane of this height has room for the name of a file
_CURVE = 110.0
_LINE = 18.0
_LETTER = 6.3  # the width of a letter, about; fonts differ
_SHORTEST_NAME = 3  # letters

_TICKS = 12  # at most
_STEPS = (0.01, 0.1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)  # seconds
# Tools that share a colour.
_FAMILY = {
    "cicc": "cicc",
    "ptxas": "ptxas",
    "cudafe++": "cudafe",
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "cc1", "cc1plus"), "host"),
}
_LEGEND = {
    "cudafe": "cudafe++",
    "cicc": "cicc",
    "ptxas": "ptxas",
    "host": "gcc",
    "other": "other",
    "wait": "waits for memory",
    "hit": "from the cache",
    "job failed": "failed",
    "job cut": "cut off",
}
Stages = Sequence[tuple[str, float]]  # name and seconds, in order
_CLASSES = {"failed": "job failed", "cut off": "job cut"}
_STYLE = """
text{fill:#17202a;font:11px system-ui,sans-serif} .soft{fill:#566270} .on{fill:#fff}
.title{font-size:18px;font-weight:600} .right{text-anchor:end} .middle{text-anchor:middle}
.paper{fill:#fff} .line{stroke:#d5dbe1} .job{fill:#e6eaee;stroke:#7d8a97}
.failed{stroke:#c0262d;stroke-width:2} .cut{stroke-dasharray:4 3} .hit{fill:#267a30}
.cicc{fill:#2563a8} .ptxas{fill:#b4540a} .cudafe{fill:#0f766e} .host{fill:#7446b8}
.other{fill:#5f6b7a} .wait{fill:url(#waiting)} .hatch{stroke:#8a6d00;stroke-width:2}
.peak{fill:#2563a8;opacity:.55} .expected{fill:none;stroke:#b4540a;stroke-width:1.5}
"""


def svg_text(timeline: Timeline, title: str, stages: Stages = ()) -> str:
    """Return the picture as SVG text; a browser shows the figures of a compile as tooltips."""
    advice, frame = advise(timeline), _Frame(timeline, has_stages=bool(stages))
    width, height = f"{_WIDTH}", f"{frame.foot + _LINE * len(advice):.0f}"
    box = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    svg = ET.Element("svg", box, xmlns="http://www.w3.org/2000/svg")
    ET.SubElement(svg, "style").text = _STYLE
    _rectangle(svg, (0, 0, _WIDTH, float(height)), "paper")
    _text(svg, (_LEFT, 26), title, "title")
    _text(svg, (_LEFT, 46), ", ".join(_figures(timeline)), "soft")
    if timeline.jobs:
        _draw_legend(svg)
        _draw_clock(svg, frame)
        for job in timeline.jobs:
            _draw_job(svg, job, frame)
        _draw_memory(svg, timeline.memory, frame)
    if stages:
        _draw_stages(svg, stages, frame.foot - 3 * _LINE)
    for number, line in enumerate(advice):
        _text(svg, (_LEFT, frame.foot + _LINE * number), f"• {line}")
    return ET.tostring(svg, encoding="unicode") + "\n"


@dataclass(frozen=True)
class _Frame:
    """Coordinates in the picture."""

    timeline: Timeline
    has_stages: bool

    @property
    def lane(self) -> float:
        """The height of a lane."""
        return max(_LEAST_LANE, min(_TALLEST_LANE, _ALL_LANES / max(1, self.timeline.lanes)))

    @property
    def base(self) -> float:
        """The lower edge of the curve."""
        return _TOP + self.lane * self.timeline.lanes + 28 + _CURVE

    @property
    def foot(self) -> float:
        """The first line of text below the drawing."""
        foot = self.base + 2 * _LINE if self.timeline.jobs else _TOP - 2 * _LINE
        return foot + 4 * _LINE if self.has_stages else foot

    def x(self, time: float) -> float:
        """Return the coordinate of a time."""
        return _LEFT + time / (self.timeline.elapsed or 1.0) * (_WIDTH - _LEFT - _RIGHT)


def _figures(timeline: Timeline) -> Iterator[str]:
    if timeline.jobs:
        at_once = timeline.worked / timeline.elapsed if timeline.elapsed else 0.0
        yield f"{datetime.fromtimestamp(timeline.begun, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        yield f"{show_time(timeline.elapsed)} from first start to last end"
        yield f"{show_time(timeline.worked)} of compiling, {at_once:.1f} in parallel on average"
        yield f"{show_time(timeline.waited)} of waiting for memory"
        yield f"at most {show_size(timeline.peak)} used"


def _draw_legend(svg: ET.Element) -> None:
    pattern = {"id": "waiting", "width": "5", "height": "5", "patternUnits": "userSpaceOnUse"}
    waiting = ET.SubElement(svg, "pattern", pattern, patternTransform="rotate(45)")
    _path(waiting, "M0 0V5", "hatch")
    left = float(_LEFT)
    for kind, name in _LEGEND.items():
        if kind == "hit":
            _draw_hit(svg, left + 6, 64)
        else:
            _rectangle(svg, (left, 59, 14, 10), kind)
        _text(svg, (left + 20, 68), name, "soft")
        left += 38 + _LETTER * len(name)


def _draw_clock(svg: ET.Element, frame: _Frame) -> None:
    elapsed = frame.timeline.elapsed
    step = next((step for step in _STEPS if elapsed / step <= _TICKS), elapsed)
    for number in range(int(elapsed / step) + 1):
        left = frame.x(number * step)
        _path(svg, f"M{left:.1f} {_TOP - 8}V{frame.base:.1f}", "line")
        _text(svg, (left, _TOP - 12), show_time(number * step), "soft middle")
    _text(svg, (8, _TOP - 12), "lane", "soft")
    for lane in range(0, frame.timeline.lanes, max(1, round(_LINE / frame.lane))):
        _text(svg, (_LEFT - 8, _TOP + lane * frame.lane + 12), f"{lane + 1}", "soft right")


def _draw_job(svg: ET.Element, job: CompileJob, frame: _Frame) -> None:
    top, tall = _TOP + job.lane * frame.lane, frame.lane - 2
    left, right = frame.x(job.start), frame.x(job.end)
    group = ET.SubElement(svg, "g")
    ET.SubElement(group, "title").text = plain(_facts(job))
    if job.state == "hit":
        _draw_hit(group, left, top + tall / 2)
        return
    _rectangle(group, (left, top, right - left, tall), _CLASSES.get(job.state, "job"))
    label = 14.0 if frame.lane >= _LABELLED else 0.0
    rows = max((part.row + 1 for part in job.parts), default=1)
    strip = (tall - label - 2) / rows
    for part in job.parts:
        _draw_tool(group, part, (top + label + 1 + part.row * strip, strip - (rows > 1)), frame)
    if label:
        _text(group, (left + 4, top + 11), _end_of(job.file, right - left - 8))


def _draw_tool(group: ET.Element, part: Phase, strip: tuple[float, float], frame: _Frame) -> None:
    (top, tall), tool = strip, part.tool
    wait, left, right = frame.x(tool.asked), frame.x(tool.start), frame.x(tool.end)
    if tool.start > tool.asked:
        _rectangle(group, (wait, top, left - wait, tall), "wait")
    _rectangle(group, (left, top, right - left, tall), _FAMILY.get(tool.name, "other"))
    if tall >= 2 * _LETTER:
        names = (part.name, part.name.rpartition(" ")[2])
        fitting = [name for name in names if _LETTER * len(name) <= right - left - 6]
        _text(group, (left + 3, top + tall / 2 + 4), next(iter(fitting), ""), "on")


def _draw_memory(svg: ET.Element, memory: tuple[MemoryPoint, ...], frame: _Frame) -> None:
    base, most = frame.base, max((max(at.expected, at.peak) for at in memory), default=0)
    if not most:
        return
    for part in (0.0, 0.5, 1.0):
        top = base - part * _CURVE
        _path(svg, f"M{_LEFT} {top:.1f}H{_WIDTH - _RIGHT}", "line")
        _text(svg, (_LEFT - 8, top + 4), show_size(round(part * most)), "soft right")
    start, scale = f"M{frame.x(memory[0].time):.1f} {base:.1f}", _CURVE / most
    peaks, expected = [at.peak for at in memory], [at.expected for at in memory]
    for kind, sizes in (("peak", peaks), ("expected", expected)):
        steps = (
            f"H{frame.x(at.time):.1f}V{base - size * scale:.1f}"
            for at, size in zip(memory, sizes, strict=True)
        )
        _path(svg, start + "".join(steps), kind)
    caption = "memory of all tools together: line: expected, area: peak"
    _text(svg, (_LEFT, base + 14), caption, "soft")


def _draw_stages(svg: ET.Element, stages: Stages, top: float) -> None:
    """Draw the stages one after the other, each as wide as it took long."""
    total = sum(seconds for _, seconds in stages) or 1.0
    _text(svg, (_LEFT, top - 4), f"stages of the published build: {show_time(total)}", "soft")
    left = float(_LEFT)
    for number, (name, seconds) in enumerate(stages):
        wide = seconds / total * (_WIDTH - _LEFT - _RIGHT)
        group = ET.SubElement(svg, "g")
        ET.SubElement(group, "title").text = f"{name}: {show_time(seconds)}"
        _rectangle(group, (left, top, wide, _LINE), ("stage host", "stage cudafe")[number % 2])
        fits = _LETTER * len(name) <= wide - 6
        _text(group, (left + 3, top + 13), name if fits else "", "on")
        left += wide


def _facts(job: CompileJob) -> str:
    archs = " ".join(f"sm_{arch}" for arch in job.archs)
    return (
        f"{job.file}\n{job.name}{' for ' if archs else ''}{archs}: "
        f"{'from the cache' if job.state == 'hit' else job.state}, {show_time(job.worked)} "
        f"from {show_time(job.start)} on"
        + (f", waited {show_time(job.waited)} for memory" if job.waited else "")
        + (f"; used {show_size(job.peak)}" if job.peak else "")
    )


def _end_of(text: str, room: float) -> str:
    """Return as much of the end of a text as fits."""
    letters = int(room / _LETTER)
    if len(text) <= letters:
        return text
    return f"…{text[1 - letters :]}" if letters > _SHORTEST_NAME else ""


def _draw_hit(parent: ET.Element, x: float, y: float) -> None:
    _path(parent, f"M{x - 5:.1f} {y:.1f}l5-5 5 5-5 5z", "hit")


def _path(parent: ET.Element, line: str, kind: str) -> None:
    ET.SubElement(parent, "path", {"class": kind}, d=line)


def _rectangle(parent: ET.Element, box: tuple[float, float, float, float], kind: str) -> None:
    """Draw a box (left, top, width, height), at least half a unit wide and high."""
    x, y, width, height = (f"{side:.1f}" for side in (*box[:2], *(max(0.5, s) for s in box[2:])))
    ET.SubElement(parent, "rect", {"class": kind}, x=x, y=y, width=width, height=height)


def _text(parent: ET.Element, position: tuple[float, float], text: str, kind: str = "") -> None:
    x, y = (f"{at:.1f}" for at in position)
    if text:
        ET.SubElement(parent, "text", {"class": kind} if kind else {}, x=x, y=y).text = plain(text)
