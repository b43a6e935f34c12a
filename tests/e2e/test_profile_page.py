"""The profile's page in a real browser: what is drawn, mouse, keyboard, light and dark, size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.build.launcher.events import read_events
from cuwheel.build.profile.report import write_profile
from tests.support.browser import Page, open_browser
from tests.support.eventlines import SOURCE, compile_line, large_log, tool_line, write_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

_DETAILS = "document.getElementById('details').textContent"
_FILES = "Array.from(document.querySelectorAll('tbody td:first-child'), cell => cell.textContent)"
# How many of the drawing's dots have a colour of the page's palette.
_DOTS = """(name => {
    const wanted = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const color = wanted.slice(1).match(/../g).map(part => parseInt(part, 16));
    const canvas = document.querySelector("canvas");
    const dots = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let at = 0; at < dots.length; at += 4)
        count += color.every((part, place) => part === dots[at + place]);
    return count;
})"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def small(tmp_path: Path) -> str:
    """Address of a page: a.cu and, after it, b.cu in lane 1; api.cpp in lane 2; c.cu is a hit."""
    log = write_log(
        tmp_path,
        tool_line(name="cudafe++", arch="", asked=0, start=0, end=1),
        tool_line(),
        compile_line(),
        tool_line(compile="2", name="ptxas", asked=12, start=15, end=18),
        compile_line(id="2", file=SOURCE + "b.cu", start=12, end=20, status=1),
        tool_line(compile="3", name="g++", arch="", asked=3, start=3, end=9),
        compile_line(id="3", name="g++", file=SOURCE + "api.cpp", archs=[], start=2, end=9.5),
        compile_line(id="4", file=SOURCE + "c.cu", start=11, end=11.05),
    )
    return write_profile(read_events(log), tmp_path, "tiny-130").page.as_uri()


def settle(page: Page) -> None:
    page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def press(page: Page, *keys: str) -> str:
    """What is said after these keys, in one line."""
    page.run("document.getElementById('timeline').focus()")
    for key in keys:
        page.press(key)
    said: str = page.run(_DETAILS)
    return said.replace("\n", "; ")


def place_on_canvas(page: Page, left: float, top: float) -> tuple[float, float]:
    """A place in the window; left and top are parts of the drawing's width and height."""
    page.run("document.getElementById('timeline').scrollIntoView()")
    frame: dict[str, Any] = page.run(
        "document.querySelector('canvas').getBoundingClientRect().toJSON()"
    )
    return frame["x"] + left * frame["width"], frame["y"] + top * frame["height"]


def test_loads_without_fault_or_request(page: Page, small: str) -> None:
    page.open(small)

    assert page.faults() == []
    assert page.requests() == [small]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["cicc", "ptxas", "cudafe", "host", "wait", "hit", "bad", "job"])
def test_draws_in_colours_of_scheme(page: Page, small: str, scheme: str, name: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.send("Emulation.setEmulatedMedia", features=features)
    page.open(small)

    assert page.run(f"{_DOTS}('--{name}')") > 10


def test_goes_from_compile_to_compile_by_keys(page: Page, small: str) -> None:
    page.open(small)

    assert press(page, "ArrowRight").startswith("a.cu; nvcc for sm_90: done, 10.0 s from 0.00 s on")
    assert press(page, "ArrowRight").startswith("c.cu; nvcc for sm_90: from the cache, 0.05 s")
    assert press(page, "End").startswith("b.cu; nvcc for sm_90: failed")
    assert press(page, "Home", "ArrowDown").startswith("api.cpp; g++: done, 7.5 s from 2.0 s on")
    assert press(page, "ArrowDown").startswith("api.cpp;")  # there is no third lane


def test_goes_into_tools_by_keys(page: Page, small: str) -> None:
    page.open(small)

    assert press(page, "Home", "Enter").startswith("cudafe++ of a.cu; 1.0 s from 0.00 s on")
    assert press(page, "ArrowRight") == (
        "cicc sm_90 of a.cu; 8.0 s from 1.0 s on; took 1.0 GiB, expected 2.0 GiB"
    )
    assert press(page, "ArrowRight").startswith("cicc")  # it has two
    assert press(page, "Escape").startswith("a.cu; nvcc")


def test_says_how_long_tool_waited(page: Page, small: str) -> None:
    page.open(small)

    assert ", waited 3.0 s for memory" in press(page, "End", "Enter")


def test_zooms_by_keys(page: Page, small: str) -> None:
    page.open(small)
    before = page.run(f"{_DOTS}('--ptxas')")

    press(page, "End", "+")
    settle(page)

    assert page.run(f"{_DOTS}('--ptxas')") > 1.5 * before


def test_shows_figures_under_mouse(page: Page, small: str) -> None:
    page.open(small)
    page.point(*place_on_canvas(page, 0.3, 0.2))
    over_tool = page.run(_DETAILS)
    page.point(*place_on_canvas(page, 0.3, 0.9))

    assert over_tool.startswith("cicc sm_90 of a.cu")
    assert "memory: at most 2.0 GiB taken, 4.0 GiB expected" in page.run(_DETAILS)


def test_sorts_table_by_click(page: Page, small: str) -> None:
    page.open(small)
    first = page.run(_FILES)

    page.run("document.querySelectorAll('th button')[0].click()")
    by_name = page.run(_FILES)
    page.run("document.querySelectorAll('th button')[7].click()")
    by_start = page.run(_FILES)

    assert first == ["a.cu", "api.cpp", "b.cu", "c.cu"]
    assert by_name == ["a.cu", "api.cpp", "b.cu", "c.cu"]
    assert by_start == ["b.cu", "c.cu", "api.cpp", "a.cu"]
    assert page.run("document.querySelectorAll('[aria-sort]').length") == 1


def test_shows_page_of_build_without_compiles(page: Page, tmp_path: Path) -> None:
    made = write_profile(read_events(tmp_path / "none"), tmp_path, "tiny-130")

    page.open(made.page.as_uri())

    assert page.faults() == []
    assert "nothing was compiled" in page.run("document.body.innerText")
    assert "Timeline" not in page.run("document.body.innerText")


def test_stays_usable_with_8000_compiles(page: Page, tmp_path: Path) -> None:
    log = large_log(tmp_path, 8000, 64)
    started = time.monotonic()
    made = write_profile(read_events(log), tmp_path, "large-130")
    written = time.monotonic() - started

    started = time.monotonic()
    page.open(made.page.as_uri())
    loaded = time.monotonic() - started

    started = time.monotonic()
    said = press(page, "End", *["+"] * 8, *["ArrowLeft"] * 8)
    settle(page)
    moved = time.monotonic() - started

    assert said.startswith("k7")
    assert page.faults() == []
    assert written < 30  # seconds; 2 where nothing else runs
    assert loaded < 30  # seconds; 3 where nothing else runs
    assert moved < 10  # seconds; 17 keys, each a redraw
