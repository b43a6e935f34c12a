from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cuwheel.build.compile.events import read_events
from cuwheel.lab.profile.picture import svg_text
from cuwheel.lab.profile.timeline import Timeline, make_timeline
from tests.support.build.event_lines import (
    SOURCE,
    compile_line,
    large_log,
    timeline_of,
    tool_line,
    two_files,
)
from tests.support.golden import Golden

_LEFT, _WIDE = 64, 1200 - 64 - 24  # of the time axis


class Picture:
    """The elements of an SVG, which has to be well formed."""

    def __init__(self, timeline: Timeline, title: str = "tiny-130") -> None:
        self.root = ET.fromstring(svg_text(timeline, title))

    def all(self, name: str) -> list[ET.Element]:
        return [item for item in self.root.iter() if item.tag.endswith(f"}}{name}")]

    def texts(self) -> list[str]:
        return [item.text or "" for item in self.all("text")]

    def spans(self, kind: str) -> list[tuple[float, float]]:
        """Return start and end of the boxes of a kind, as parts of the build's time."""
        spans = []
        for box in self.boxes(kind):
            start = float(box.get("x", "")) - _LEFT
            end = start + float(box.get("width", ""))
            spans.append((round(start / _WIDE, 2), round(end / _WIDE, 2)))
        return spans

    def boxes(self, kind: str) -> list[ET.Element]:
        """Return the boxes of a kind without the legend's."""
        return [
            box
            for box in self.all("rect")
            if box.get("class") == kind and float(box.get("y", "")) > 100
        ]


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    return Picture(timeline_of(tmp_path, *two_files()))


def test_draws_compiles_to_scale_in_lanes(picture: Picture) -> None:
    assert picture.spans("job") == [(0, 1), (0.2, 0.8)]
    assert [box.get("y") for box in picture.boxes("job")] == ["108.0", "148.0"]


def test_draws_waiting_before_the_tool(picture: Picture) -> None:
    assert picture.spans("wait") == [(0.2, 0.3)]
    assert picture.spans("cicc") == [(0.1, 0.9), (0.3, 0.7)]


@pytest.mark.parametrize(
    ("tool", "kind"),
    [("cudafe++", "cudafe"), ("ptxas", "ptxas"), ("g++", "host"), ("fatbinary", "other")],
)
def test_draws_tools_in_colours(tool: str, kind: str, tmp_path: Path) -> None:
    picture = Picture(timeline_of(tmp_path, tool_line(name=tool), compile_line()))

    assert picture.spans(kind) == [(0.1, 0.9)]


def test_stacks_parallel_tools(tmp_path: Path) -> None:
    parallel = tool_line(arch="80", asked=2, start=2, end=5)

    picture = Picture(timeline_of(tmp_path, tool_line(), parallel, compile_line()))

    first, second = picture.boxes("cicc")
    assert float(first.get("y", "")) + float(first.get("height", "")) <= float(second.get("y", ""))


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([tool_line(), compile_line()], "job"),
        ([tool_line(), compile_line(status=1)], "job failed"),
        ([tool_line()], "job cut"),
    ],
)
def test_shows_how_a_compile_ended(lines: list[str], kind: str, tmp_path: Path) -> None:
    picture = Picture(timeline_of(tmp_path, *lines))

    assert len(picture.boxes(kind)) == 1


def test_marks_cache_hits(tmp_path: Path) -> None:
    lines = [tool_line(), compile_line(), compile_line(id="2", start=5, end=5.1)]

    picture = Picture(timeline_of(tmp_path, *lines))

    _, mark = (item for item in picture.all("path") if item.get("class") == "hit")  # after legend's
    assert mark.get("d", "").startswith(f"M{_LEFT + 0.5 * _WIDE - 5:.1f} ")
    assert len(picture.boxes("job")) == 1


def test_draws_memory_to_scale(picture: Picture) -> None:
    curves = {item.get("class"): item.get("d", "") for item in picture.all("path")}
    tops = {
        kind: [float(top) for top in re.findall(r"V([\d.]+)", curves[kind])]
        for kind in ("expected", "peak")
    }

    base = tops["expected"][-1]
    assert [base - top for top in tops["expected"]] == pytest.approx([55, 110, 55, 0])
    assert [base - top for top in tops["peak"]] == pytest.approx([27.5, 55, 27.5, 0])
    assert {"4.0 GiB", "2.0 GiB", "0 bytes"} <= set(picture.texts())


def test_writes_figures_tooltips_and_advice(picture: Picture, golden: Golden) -> None:
    titles = [item.text or "" for item in picture.all("title")]

    golden.check("profile/picture.txt", "\n".join((*titles, *picture.texts())))


def test_draws_a_build_without_compiles(tmp_path: Path) -> None:
    picture = Picture(timeline_of(tmp_path))

    assert len(picture.texts()) == 2
    assert not picture.all("rect")[1:]


def test_shows_the_end_of_a_long_name(tmp_path: Path) -> None:
    name = f"{SOURCE}{'d' * 99}/flash_fwd.cu"
    lines = [compile_line(cached=""), compile_line(id="2", file=name, start=9, end=10, cached="")]

    picture = Picture(timeline_of(tmp_path, *lines))

    assert "…dd/flash_fwd.cu" in picture.texts()


def test_loads_nothing(picture: Picture) -> None:
    attributes = [value for item in picture.root.iter() for value in item.attrib.values()]
    styles = [item.text or "" for item in picture.all("style")]

    assert not [value for value in attributes if "//" in value]
    assert re.findall(r"url\([^#][^)]*\)|@import", "".join(styles)) == []
    assert picture.all("script") == []


def test_escapes_names(tmp_path: Path) -> None:
    name = "</text><script>alert(1)</script>&amp;\x01\udc80.cu"

    picture = Picture(timeline_of(tmp_path, compile_line(file=name)), name)

    assert "</text><script>alert(1)</script>&amp;\ufffd\ufffd.cu" in picture.texts()
    assert picture.all("script") == []


def test_keeps_the_picture_small(tmp_path: Path) -> None:
    small = svg_text(make_timeline(read_events(large_log(tmp_path, 16, 16))), "x")
    large = svg_text(make_timeline(read_events(large_log(tmp_path, 1000, 16))), "x")

    assert (len(large) - len(small)) / 1000 < 700  # bytes for a compile with all its tools


def test_stages_are_as_wide_as_they_took_long(tmp_path: Path) -> None:
    stages = (("environment", 30.0), ("build", 60.0), ("audit", 10.0), ("index", 0.0))
    root = ET.fromstring(svg_text(timeline_of(tmp_path, *two_files()), "tiny-130", stages))

    groups = [item for item in root.iter() if item.tag.endswith("}g")]
    shown = {
        title.partition(":")[0]: float(rect.get("width", ""))
        for group in groups
        for title, rect in [(group[0].text or "", group[1])]
        if rect.get("class", "").startswith("stage")
    }
    assert [*shown] == [name for name, _ in stages]
    assert shown["build"] == pytest.approx(2 * shown["environment"], abs=0.2)
    bottom = max(float(item.get("y", "0")) for item in root.iter())
    assert bottom < float(root.get("height", ""))
