"""The HTML page of a run, its summary, and the user's command that gets it."""

from __future__ import annotations

import html.parser
import os
from pathlib import Path

from cuwheel.lab.nightly.page import page_of, run_hook, write_summary
from cuwheel.lab.nightly.record import OUT_OF_TIME, Step
from tests.support.golden import Golden
from tests.support.lab.nightly_runs import make_run


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


def test_page_shows_steps_logs_and_earlier_runs(golden: Golden) -> None:
    perf = Step(name="perf", about="tiny-130", log="logs/a b.log", pages=("perf/tiny/perf.html",))
    late = Step(name="smoke", about="tiny-130", state="skipped", detail=OUT_OF_TIME)
    before = make_run(steps=())

    page = page_of(
        make_run(steps=(*make_run().steps, perf, late)), [("2026-11-22T02-30-00Z", before)]
    )

    golden.check("nightly/page.html", page)


def test_summary_holds_the_explanation(tmp_path: Path, golden: Golden) -> None:
    text = write_summary(make_run(), tmp_path).read_text()

    golden.check("nightly/summary.txt", text, {tmp_path: "DIR"})


def test_hook_gets_summary_and_report(tmp_path: Path) -> None:
    summary = write_summary(make_run(), tmp_path).read_text()

    status = run_hook(
        f'cat > {tmp_path}/mail; echo "$CUWHEEL_NIGHTLY_REPORT"; exit 3', tmp_path, os.environ
    )

    assert status == 3
    assert (tmp_path / "mail").read_text() == summary
    assert (tmp_path / "logs" / "on-failure.log").read_text() == f"{tmp_path}/index.html\n"


def test_hook_that_is_no_command_has_failed(tmp_path: Path) -> None:
    write_summary(make_run(), tmp_path)

    assert run_hook("no-such-program-here", tmp_path, os.environ) == 127
    assert "not found" in (tmp_path / "logs" / "on-failure.log").read_text()
