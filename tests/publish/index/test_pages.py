"""HTML pages of a site; tests/e2e/publish/test_site.py opens them in a browser."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from cuwheel.build.wheelhouse.facts import WheelFacts
from cuwheel.publish.index.pages import ListedWheel, people_pages
from tests.build.wheelhouse.test_simple_api import WHEEL, make_entry

FACTS = WheelFacts(cuda=(13,), archs=("90", "100"), ptx=("120",), drivers=("580.65.06",))


class Texts(HTMLParser):
    """The texts and links of a page, and the tags that aren't closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name == "href" and value]
        if tag not in {"meta", "input", "br", "html"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "html":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def listed(**facts: object) -> ListedWheel:
    name = str(facts.pop("name", WHEEL))
    entry = make_entry(name, **{"framework": "torch==2.11.*", "has_statement": True, **facts})
    return ListedWheel(entry=entry, cuda="cu130", facts=FACTS)


@pytest.mark.parametrize("files", ["", "https://files.invalid/v1"])
def test_project_page_shows_all_facts_of_a_wheel(files: str) -> None:
    _, pages = people_pages([listed()], files=files, address="https://wheels.invalid")

    page = Texts(pages["toy/index.html"].decode())
    facts = ("cu130", "3.12", "torch==2.11.*", "90, 100, 120 (PTX)", "580.65.06", "2.28", "a" * 64)
    assert set(facts) <= set(page.texts)
    base = files or "../../files"
    assert f"{base}/toy-1.0%2Bcu130-cp312-cp312-manylinux_2_28_x86_64.whl" in page.links
    assert any(link.endswith(".whl.provenance.json") for link in page.links)
    assert not page.open


def test_home_page_links_each_wheel() -> None:
    other = listed(name="other-2.0+cu130-py3-none-any.whl")
    home, pages = people_pages([listed(), other], files="", address="")

    page = Texts(home.decode())
    ids = "packages/toy/index.html#toy-1.0%2Bcu130-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert ids in page.links
    assert {"simple/index.html", "cu130/simple/index.html"} <= set(page.links)
    assert set(pages) == {"toy/index.html", "other/index.html"}
    assert not page.open


def test_newest_version_comes_first() -> None:
    names = [f"toy-{version}-py3-none-any.whl" for version in ("1.9", "1.10")]

    _, pages = people_pages([listed(name=name) for name in names], files="", address="")

    text = pages["toy/index.html"].decode()
    assert text.index("toy-1.10-py3") < text.index("toy-1.9-py3")


def test_shows_yanked_wheels_with_the_reason() -> None:
    home, pages = people_pages([listed(yanked="a < b & c")], files="", address="")

    assert "Yanked: a &lt; b &amp; c" in pages["toy/index.html"].decode()
    assert "1.0+cu130 (yanked)" in home.decode()
    assert WHEEL in pages["toy/index.html"].decode()
