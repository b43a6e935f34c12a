"""Picture of a wheel: each library and its device code by arch, as areas in an SVG.

The layout is that of "Squarified Treemaps" (Bruls, Huizing and van Wijk, 2000). Colours have a
contrast of at least 4.5 with their text (WCAG 2.2, 1.4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from xml.etree import ElementTree as ET

from cuwheel.base.errors import UsageError
from cuwheel.base.formats.binaries.fatbin import PTX, SASS, ElementKind, kinds_for_gpu
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.output.terminal import one_line, plain
from cuwheel.base.system.quantities import show_size
from cuwheel.check.audit.scan import ScannedLibrary, WheelScan
from cuwheel.check.audit.verdict import AuditResult

# In the picture's own units, which a viewer shows as pixels unless it scales.
_WIDTH, _HEIGHT, _TOP, _LINE, _MARGIN = 1200.0, 640.0, 56.0, 20.0, 12.0
_LETTER, _TEXT = 7.0, 16.0  # width of a letter, about, and height of a line
_SHORTEST = 4  # letters of a label
_HOST, _OTHER = "host code and data", "other files"
_COLOURS = ("#1d4f91", "#8a3b06", "#0b5d4e", "#5b2d90", "#7a1f3d", "#3d5a00", "#114b5f", "#6b4a00")
_GREY, _LIGHT = "#4a545e", "#6a737c"
_STYLE = "text{font:12px system-ui,sans-serif;fill:#fff} .dark{fill:#17202a} .title{font-size:18px}"


class _Box(NamedTuple):
    left: float
    top: float
    width: float
    height: float


def check_one_wheel(count: int) -> None:
    """Raise UsageError for another number of wheels."""
    if count != 1:
        raise _not_shown(f"there are {count}")


def write_treemap(path: Path, result: AuditResult) -> None:
    """Write the picture of a wheel; raise UsageError for one that wasn't read."""
    if result.parts or not result.case.scan.contents:
        raise _not_shown(f"{result.case.scan.file_name} wasn't read from end to end")
    write_atomically(path, treemap(result.case.scan))


def _not_shown(why: str) -> UsageError:
    return UsageError(
        "--treemap shows one wheel", why=why, fix="name one .whl file on this machine"
    )


def treemap(scan: WheelScan) -> str:
    """Return the picture as SVG text; a browser shows names and sizes as tooltips."""
    areas, lines = _areas(scan), [*_savings(scan)]
    total = sum(content.size for content in scan.contents.values())
    height = _TOP + _HEIGHT + _LINE * (len(lines) + 1)
    svg = ET.Element(
        "svg",
        {"viewBox": f"0 0 {_WIDTH:.0f} {height:.0f}", "role": "img"},
        xmlns="http://www.w3.org/2000/svg",
    )
    svg.set("aria-labelledby", "title desc")
    name = f"{_shown(scan.file_name)}: {show_size(total)} unpacked"
    ET.SubElement(svg, "title", id="title").text = name
    described = "; ".join(
        f"{_shown(part)}: {show_size(sum(of.values()))}" for part, of in areas.items()
    )
    ET.SubElement(svg, "desc", id="desc").text = ". ".join((described, *lines))
    ET.SubElement(svg, "style").text = _STYLE
    ET.SubElement(svg, "rect", width="100%", height="100%", fill="#fff")
    _write(svg, (_MARGIN, 34), name, "dark title")
    colours = _colours(areas)
    whole = _Box(_MARGIN, _TOP, _WIDTH - 2 * _MARGIN, _HEIGHT)
    sizes = {part: sum(of.values()) for part, of in areas.items()}
    for part, box in _squarify(sizes, whole):
        for kind, inner in _squarify(areas[part], box):
            _draw(svg, inner, (part, kind), areas[part][kind], colours[kind])
        frame = {"fill": "none", "stroke": "#fff", "stroke-width": "4"}
        ET.SubElement(svg, "rect", {**_place(box), **frame})
    for number, line in enumerate(lines, 1):
        _write(svg, (_MARGIN, _TOP + _HEIGHT + _LINE * number), line, "dark")
    return ET.tostring(svg, encoding="unicode") + "\n"


def _areas(scan: WheelScan) -> dict[str, dict[str, int]]:
    """Return the bytes of each library by arch, and of all other files as one."""
    areas: dict[str, dict[str, int]] = {}
    for library in scan.libraries:
        size = scan.contents[library.name].size
        code: Counter[str] = Counter()
        for kind, count in library.code_sizes.items():
            code[_name(kind)] += count
        areas[library.name] = {**code, _HOST: max(0, size - code.total())}
    libraries = {library.name for library in scan.libraries}
    rest = sum(content.size for name, content in scan.contents.items() if name not in libraries)
    return {**areas, _OTHER: {_OTHER: rest}}


def _name(kind: ElementKind) -> str:
    return f"sm_{kind.arch}" if kind.kind == SASS else f"PTX {kind.arch}"


def _savings(scan: WheelScan) -> Iterator[str]:
    """Yield for each GPU the bytes of code that it doesn't need, as `slim` would leave it out."""
    libraries = [library for library in scan.libraries if library.code_sizes]
    kinds = [kind for library in libraries for kind in library.code_sizes if kind.kind == SASS]
    for gpu in sorted({int(kind.arch.rstrip("af")) for kind in kinds}):
        saved = sum(_saved(library, str(gpu)) for library in libraries)
        yield f"for sm_{gpu} alone, without {show_size(saved)} of device code: cuwheel slim"


def _saved(library: ScannedLibrary, gpu: str) -> int:
    needed = {*kinds_for_gpu(library.code_sizes, gpu)}
    return sum(
        size
        for kind, size in library.code_sizes.items()
        if kind.kind in (SASS, PTX) and kind not in needed
    )


def _colours(areas: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    kinds = sorted({kind for of in areas.values() for kind in of} - {_HOST, _OTHER})
    colours = {kind: _COLOURS[number % len(_COLOURS)] for number, kind in enumerate(kinds)}
    return {**colours, _HOST: _GREY, _OTHER: _LIGHT}


def _squarify(sizes: Mapping[str, int], box: _Box) -> Iterator[tuple[str, _Box]]:
    """Yield a box for each size, the largest first, nearly square."""
    total = sum(sizes.values())
    scale = box.width * box.height / total if total else 0.0
    left = [(name, size * scale) for name, size in sorted(sizes.items(), key=lambda i: -i[1])]
    left = [(name, area) for name, area in left if area > 0]
    while left:
        side = min(box.width, box.height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], side) <= _worst(left[:count], side):
            count += 1
        row, left = left[:count], left[count:]
        box = yield from _lay(row, box)


def _worst(row: Sequence[tuple[str, float]], side: float) -> float:
    """Return the largest ratio of sides in a row along the shorter side."""
    areas = [area for _, area in row]
    thick = sum(areas) / side
    return max(max(area / thick**2, thick**2 / area) for area in areas)


def _lay(row: Sequence[tuple[str, float]], box: _Box) -> Generator[tuple[str, _Box], None, _Box]:
    """Yield the boxes of a row along the shorter side; return the rest of the box."""
    total, at = sum(area for _, area in row), 0.0
    is_wide = box.width >= box.height
    thick = total / (box.height if is_wide else box.width)
    for name, area in row:
        length = area / thick
        if is_wide:
            yield name, _Box(box.left, box.top + at, thick, length)
        else:
            yield name, _Box(box.left + at, box.top, length, thick)
        at += length
    if is_wide:
        return _Box(box.left + thick, box.top, box.width - thick, box.height)
    return _Box(box.left, box.top + thick, box.width, box.height - thick)


def _shown(text: str) -> str:
    return plain(one_line(text))


def _place(box: _Box) -> dict[str, str]:
    names = ("x", "y", "width", "height")
    return {name: f"{value:.2f}" for name, value in zip(names, box, strict=True)}


def _draw(svg: ET.Element, box: _Box, names: tuple[str, str], size: int, colour: str) -> None:
    group = ET.SubElement(svg, "g")
    part, kind = map(_shown, names)
    ET.SubElement(group, "title").text = f"{part}: {kind}: {show_size(size)}"
    texts = (*dict.fromkeys((kind, PurePosixPath(part).name)), show_size(size))
    ET.SubElement(group, "rect", _place(box), fill=colour, stroke="#fff")
    letters = int((box.width - 8) / _LETTER)
    for number, text in enumerate(texts, 1):
        if letters >= _SHORTEST and box.height > _TEXT * number + 4:
            shown = text if len(text) <= letters else f"{text[: letters - 1]}…"
            _write(group, (box.left + 4, box.top + _TEXT * number), shown)


def _write(parent: ET.Element, at: tuple[float, float], text: str, kind: str = "") -> None:
    place = {"x": f"{at[0]:.2f}", "y": f"{at[1]:.2f}"} | ({"class": kind} if kind else {})
    ET.SubElement(parent, "text", place).text = text
