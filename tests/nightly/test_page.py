"""The page of a run shows each step and loads nothing."""

from __future__ import annotations

import html.parser

from cuwheel.nightly.page import page_of
from cuwheel.nightly.record import Step
from tests.support.nights import make_run


class Reader(html.parser.HTMLParser):
    """Tags and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in {"href", "src"} and value]


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_page_loads_nothing() -> None:
    page = page_of(make_run(), ())

    assert not read(page).tags & {"script", "img", "link", "iframe"}
    assert "//" not in "".join(read(page).links)
    assert "url(" not in page


def test_page_links_logs_and_figures() -> None:
    perf = Step(name="perf", about="tiny-130", log="logs/a b.log", pages=("perf/tiny/perf.html",))

    links = read(page_of(make_run(steps=(perf,)), ())).links

    assert links == ["logs/a%20b.log", "perf/tiny/perf.html"]


def test_page_shows_what_a_log_says_as_text() -> None:
    page = page_of(make_run(), ())

    assert "status 61: it &lt;broke&gt;" in page
    assert "<pre>ptxas was killed: out of memory</pre>" in page
    assert "1 failed, 1 passed, in 1:00" in page


def test_page_links_the_runs_before() -> None:
    before = make_run(steps=())

    page = page_of(make_run(), [("2026-11-22T02-30-00Z", before)])

    assert "../2026-11-22T02-30-00Z/index.html" in read(page).links
