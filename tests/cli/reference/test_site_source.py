"""What the site is made from: its links lead to pages of the site, or to what is copied."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.check.explain.catalogue import causes
from cuwheel.cli.reference.site_source import SitePage, site_pages, write_site_source


@pytest.fixture(scope="module")
def pages() -> dict[str, SitePage]:
    """Every page by its path; a fixture, as each worker imports this module."""
    return site_pages()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every page as the generator gets it."""
    folder = tmp_path_factory.mktemp("source")
    write_site_source(folder)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.md")}


def test_each_cause_has_a_page_with_all_its_samples(pages: dict[str, SitePage]) -> None:
    for slug, cause in causes().items():
        text = pages[f"troubleshooting/{slug}.md"].text

        assert f"\n# {cause.title}\n" in text
        assert [one for one in cause.examples if f"```\n{one}\n```" not in text] == []


def test_navigation_holds_what_the_first_page_lists(source: dict[str, str]) -> None:
    listed = re.findall(
        r"^- \[.*\]\((.+)\)$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE
    )
    trees = re.findall(r"```\{toctree\}\n(?::[^\n]*\n)+\n(.*?)\n```", source["index.md"], re.DOTALL)
    names = "\n".join(trees).splitlines()

    assert len(names) == len(listed)
    assert [name for name in names if f"{name}.md" not in source] == []


def test_first_page_lists_every_page_outside_listed_folders() -> None:
    """Else `nox -s site` fails: add the page to a list of docs/index.md."""
    index = (ROOT / "docs" / "index.md").read_text()
    pages = [
        path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
        if path.parent.name not in {"adr", "evidence"}
    ]

    unlisted = [name for name in pages if f"]({name})\n" not in index]

    assert sorted(unlisted) == ["index.md", "package.md"]


@pytest.mark.parametrize("folder", ["adr", "evidence"])
def test_every_page_of_a_folder_is_listed(folder: str, source: dict[str, str]) -> None:
    names = [path.name for path in (ROOT / "docs" / folder).glob("*.md")]

    assert [name for name in names if f"]({name})" not in source[f"{folder}/index.md"]] == []


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("how-to/audit-in-ci.md", "](../troubleshooting/index.md)"),
        ("how-to/failure-catalogue.md", "](../files/tests/logs/README.md.txt)"),
        ("architecture.md", "](contributing.md)"),
        ("changelog.md", "# "),
        ("reference/errors.md", "(error-usage)=\n\n## Usage"),
        ("reference/errors.md", "](#error-usage)"),
        ("reference/findings.md", "(audit-needed-library)="),
        ("tutorials/audit-in-ci.md", "](../reference/findings.md)"),
    ],
)
def test_links_lead_where_the_site_has_it(page: str, link: str, source: dict[str, str]) -> None:
    assert link in source[page]


def test_code_stays_as_it_is(source: dict[str, str]) -> None:
    path = PurePosixPath("docs/how-to/publish.md")
    blocks = re.findall(r"^```.*?^```$", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)

    assert blocks
    assert [block for block in blocks if block not in source["how-to/publish.md"]] == []


def test_pages_show_where_their_links_start(pages: dict[str, SitePage]) -> None:
    assert pages["how-to/explain.md"] == SitePage(
        origin=PurePosixPath("docs/how-to/explain.md"),
        text=(ROOT / "docs" / "how-to" / "explain.md").read_text(),
    )
