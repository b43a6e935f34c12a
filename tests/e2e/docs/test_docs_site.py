"""The site of docs/ as `nox -s site` makes it, in a real browser, from files and from a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.check.explain.catalogue import causes
from cuwheel.check.explain.explanation import Explainer
from tests.support.machines.browser import DESKTOP, PHONE, Browser, browser
from tests.support.machines.clones import copy_checkout
from tests.support.servers.site import serving_site
from tests.support.walkthrough import plain_environment

pytestmark = pytest.mark.e2e

SIZES = pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
LOGS = sorted((ROOT / "tests" / "logs" / "raw").glob("*--*.log"))
# A line as it is printed on a machine of one's own: its paths, releases and names stand nowhere.
LINE = (
    "nvcc fatal   : Unsupported gpu architecture 'compute_107' in /home/me/fastops-7.1/scatter.cu"
)
CAUSE = "troubleshooting/arch-newer-than-nvcc"
# Of the lines of real logs, those whose cause is among the first ten results; 125 of 130 were on
# 2026-11-24, 94 of them the first.
_FOUND = 0.92
_HEADING = "document.querySelector('h1')?.innerText"
_RESULTS = "document.querySelectorAll('#search-results li a')"


def make_site(checkout: Path, target: Path, home: Path, cache: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "nox", "-s", "site", "--", str(target)]
    done = subprocess.run(
        command,
        cwd=checkout,
        env=plain_environment(home, CUWHEEL_CACHE=str(cache)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("public")
    status, said = make_site(ROOT, folder / "project" / "docs", folder, shared_cache)
    assert status == 0, said
    return folder / "project" / "docs"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where a server of plain files has the site, below the name of a project."""
    with serving_site(site.parent.parent) as server:
        yield f"{server}/project/docs"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path) as made:
        yield made


def results(page: Browser) -> list[str]:
    """Pages that a search has found, once it is over."""
    page.wait_for("document.querySelector('.search-summary')?.innerText")
    found = page.value(f"[...{_RESULTS}].map(one => one.getAttribute('href'))")
    return [str(one).partition(".html")[0] for one in found]


def foreign(page: Browser, own: str) -> list[str]:
    return [one for one in page.requests if not one.startswith((own, "data:", "about:"))]


@SIZES
def test_every_page_fits_and_asks_nobody(size: tuple[int, int], site: Path, page: Browser) -> None:
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    pages = sorted(site.rglob("*.html"))
    if size == DESKTOP:  # pages of causes are alike, and where one is too wide, a phone shows it
        pages = [path for path in pages if path.parent.name != "troubleshooting"]
    wide = []
    for path in pages:
        page.open(path.as_uri(), size)
        wide += [path.name] if page.value(overflow) > 0 else []

    assert wide == []
    assert page.complaints == []
    assert foreign(page, site.as_uri()) == []


@SIZES
@pytest.mark.parametrize("kind", ["files", "server"])
def test_line_of_a_log_finds_its_cause(
    kind: str, size: tuple[int, int], site: Path, address: str, page: Browser
) -> None:
    start = site.as_uri() if kind == "files" else address
    page.open(f"{start}/how-to/explain.html", size)
    if size == PHONE:
        page.click(".mobile-header .nav-overlay-icon")
        page.wait_for("document.querySelector('.sidebar-drawer').getBoundingClientRect().x == 0")

    page.click(".sidebar-search")
    page.type(LINE)
    page.wait_for("location.pathname.endsWith('/search.html')")

    assert CAUSE in results(page)[:3]
    page.click(f"#search-results a[href^='{CAUSE}']")
    page.wait_for(f"location.pathname.endsWith('{CAUSE}.html') && {_HEADING}")
    assert page.value(_HEADING).startswith("nvcc is too old to compile for this GPU")
    assert page.complaints == []
    assert foreign(page, start) == []


def test_lines_of_real_logs_find_their_causes(site: Path, page: Browser) -> None:
    explainer, lost, count = Explainer(), [], 0
    page.open(f"{site.as_uri()}/search.html?q=nvcc")
    results(page)

    for log in LOGS:
        slug = log.name.partition("--")[0]
        with log.open("rb") as stream:
            met = explainer.explain(stream).causes if slug in causes() else ()
        if not met:
            continue
        count += 1
        parsed = f"Search._parseQuery({json.dumps(met[0].evidence[0].text)})"
        ranked = page.value(f"Search._performSearch(...{parsed}).reverse().map(one => one[0])")
        lost += [] if f"troubleshooting/{slug}" in ranked[:10] else [log.name]

    assert count > 100
    assert len(lost) <= (1 - _FOUND) * count, lost


def test_button_copies_commands_without_prompts(site: Path, page: Browser) -> None:
    page.open((site / "how-to" / "matrix.html").as_uri())

    count = "document.querySelectorAll('{}').length"
    assert page.value(count.format("button.copy + pre")) == page.value(count.format("pre")) > 0
    assert page.value("copied('$ nox -s a\\nits output\\n$ nox -s b')") == "nox -s a\nnox -s b"
    assert page.value("copied('no prompt')") == "no prompt"


def test_words_that_stand_together_come_first(site: Path, page: Browser) -> None:
    page.open(f"{site.as_uri()}/search.html?q=remote+compile+cache+redis")

    assert "how-to/compile-cache" in results(page)[:2]


@SIZES
def test_navigation_leads_to_a_tutorial(size: tuple[int, int], address: str, page: Browser) -> None:
    page.open(f"{address}/index.html", size)
    link = ".sidebar-tree a[href='tutorials/first-wheel.html']"
    seen = f'document.querySelector("{link}").getBoundingClientRect().x >= 0'
    assert page.value(seen) == (size == DESKTOP)

    if size == PHONE:
        page.click(".mobile-header .nav-overlay-icon")
        page.wait_for(seen)
    page.click(link)

    page.wait_for("location.pathname.endsWith('/tutorials/first-wheel.html') && " + _HEADING)
    assert page.value(_HEADING).startswith("Your first wheel")
    assert page.complaints == []


def test_each_cause_has_its_page(site: Path) -> None:
    made = {path.stem for path in (site / "troubleshooting").glob("*.html")}

    assert made == {*causes(), "index"}


@pytest.mark.nightly
def test_broken_links_stop_it(tmp_path: Path, shared_cache: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    with (checkout / "docs" / "linkage.md").open("a") as text:
        text.write("[a](gone.md) [b](architecture.md#gone) [c](../bench/gone.json)\n")
        text.write("[d](../TROUBLESHOOTING.md#gone)\n")
    (checkout / "docs" / "alone.md").write_text("# Nobody links here\n")

    status, said = make_site(checkout, tmp_path / "site", tmp_path, shared_cache)

    assert status == 1
    for broken in ("'gone.md'", "'gone'", "gone.json", "alone.md"):
        assert broken in said
    assert said.count("linkage.md:") == 4
