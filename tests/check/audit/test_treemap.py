"""Pictures of wheels: their areas, and what they say to those who can't see them."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.check.audit.audit import AuditOptions, audit_session
from cuwheel.check.audit.exports.treemap import treemap
from cuwheel.check.audit.scan import scan_wheel
from tests.support.check.scans import begin_fatbin
from tests.support.factories import noise, write_wheel
from tests.support.machines.browser import browser
from tests.support.packages.defective_wheels import make_library

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with code for one GPU in one library, and for two in another."""
    library = make_library(tmp_path / "made").read_bytes()
    small, large = (begin_fatbin(arch, 1 << 16) + noise(1 << 16) for arch in (80, 86))
    files: dict[str, bytes | Path] = {
        "toy/one.so": library + small,
        "toy/<two>.so": library + small + large + large,
        "toy/__init__.py": b"#" * 5000,
    }
    return write_wheel(tmp_path, files, name="toy", tag="cp312-cp312-manylinux_2_28_x86_64")


@pytest.fixture
def root(wheel: Path) -> ET.Element:
    return ET.fromstring(treemap(scan_wheel(wheel, private_paths=())))


def test_areas_are_in_proportion_and_apart(root: ET.Element) -> None:
    boxes = {group.findtext(f"{_SVG}title"): _box(group) for group in root.iter(f"{_SVG}g")}

    name = "toy/<two>.so: sm_{}: {} KiB"
    small, large = boxes[name.format(80, "64.1")], boxes[name.format(86, "128.1")]
    assert large[2] * large[3] == pytest.approx(2 * small[2] * small[3], rel=0.01)
    assert not any(_overlap(*pair) for pair in itertools.combinations(boxes.values(), 2))
    assert all(left >= 12 and left + width <= 1188.1 for left, _, width, _ in boxes.values())


def test_says_what_it_shows(root: ET.Element) -> None:
    description = root.findtext(f"{_SVG}desc") or ""

    assert root.get("role") == "img"
    assert (root.findtext(f"{_SVG}title") or "").startswith("toy-1.2.3-")
    assert "toy/<two>.so: " in description
    # sm_80's code runs on sm_86 too, but isn't needed where there is nearer code.
    assert "for sm_80 alone, without 128.1 KiB of device code" in description
    assert "for sm_86 alone, without 64.1 KiB of device code" in description


def test_text_has_contrast(root: ET.Element) -> None:
    fills = {
        rect.get("fill") for group in root.iter(f"{_SVG}g") for rect in group.iter(f"{_SVG}rect")
    }

    assert all(1.05 / (_luminance(str(fill)) + 0.05) >= 4.5 for fill in fills)


def test_shows_one_wheel(wheel: Path, tmp_path: Path) -> None:
    options = AuditOptions(fails_on="never", treemap=tmp_path / "map.svg")

    audit_session([wheel], lambda _: None, Console(), options)
    ET.parse(tmp_path / "map.svg")

    with pytest.raises(UsageError, match="one wheel"):
        audit_session([wheel, wheel], lambda _: None, Console(), options)


@pytest.mark.parametrize("name", ["a\x01\x7f", "\u202eb", "\ufffe", "c\nd"])
def test_shows_any_name(name: str, tmp_path: Path) -> None:
    library = make_library(tmp_path / "made")
    wheel = write_wheel(tmp_path, {f"toy/{name}.so": library}, name="toy", tag="py3-none-any")

    text = treemap(scan_wheel(wheel, private_paths=()))

    ET.fromstring(text)
    assert name not in text


def test_shows_a_wheel_without_libraries(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"toy/__init__.py": b""}, name="toy", tag="py3-none-any")

    root = ET.fromstring(treemap(scan_wheel(wheel, private_paths=())))

    assert [group.findtext(f"{_SVG}title") for group in root.iter(f"{_SVG}g")] != []


_Box = tuple[float, ...]


def _box(group: ET.Element) -> _Box:
    rect = group.find(f"{_SVG}rect")
    assert rect is not None
    return tuple(float(rect.get(name, "")) for name in ("x", "y", "width", "height"))


def _overlap(one: _Box, other: _Box) -> bool:
    """Return True if two boxes share more than an edge."""
    return all(
        one[axis] + one[axis + 2] > other[axis] + 0.02
        and other[axis] + other[axis + 2] > one[axis] + 0.02
        for axis in (0, 1)
    )


def _luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb` (WCAG 2.2)."""
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return sum(share * v for share, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.e2e
def test_browser_draws_it(wheel: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.svg"
    picture.write_text(treemap(scan_wheel(wheel, private_paths=())))

    with browser(tmp_path) as page:
        page.open(picture.as_uri())
        texts = page.value(
            "[...document.querySelectorAll('g')].every(g => [...g.querySelectorAll('text')].every("
            "t => t.getBBox().x + t.getBBox().width < 4 + g.querySelector('rect').getBBox().x"
            " + g.querySelector('rect').getBBox().width))"
        )

    assert texts is True
    assert page.complaints == []
