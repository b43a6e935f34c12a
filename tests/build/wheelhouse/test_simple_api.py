"""The pages, as pypi-simple reads them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping

import pypi_simple
import pytest

from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.wheelhouse.simple_api import simple_pages

WHEEL = "toy-1.0+cu130-cp312-cp312-manylinux_2_28_x86_64.whl"


def make_entry(name: str = WHEEL, **facts: object) -> Entry:
    fields = {
        "sha256": "a" * 64,
        "size": 7,
        "uploaded": "2026-11-23T10:00:00Z",
        "metadata_sha256": "b" * 64,
        "requires_python": ">=3.10,<4",
        **facts,
    }
    return Entry(name=name, **fields)  # type: ignore[arg-type]


def read(pages: Mapping[str, bytes], form: str) -> pypi_simple.ProjectPage:
    """Read a project's page with pypi-simple."""
    content = pages[f"toy/index.{form}"]
    base = "https://example.invalid/a/simple/toy/"
    if form == "json":
        return pypi_simple.ProjectPage.from_json_data(json.loads(content), base)
    return pypi_simple.ProjectPage.from_html("toy", content, base)


@pytest.mark.parametrize("form", ["html", "json"])
def test_both_forms_have_the_same_facts(form: str) -> None:
    attested = make_entry(has_attestations=True)
    page = read(simple_pages([attested], "..", "https://example.invalid/a"), form)
    (unlinked,) = read(simple_pages([attested], ".."), form).packages
    (at_base,) = read(simple_pages([attested], "https://files.invalid/v1"), form).packages

    (file,) = page.packages
    address = "https://example.invalid/a/toy-1.0%2Bcu130-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert (file.filename, file.url.partition("#")[0]) == (WHEEL, address)
    assert file.digests == {"sha256": "a" * 64}
    assert file.metadata_digests == {"sha256": "b" * 64}
    assert (file.requires_python, file.is_yanked) == (">=3.10,<4", False)
    assert file.provenance_url == f"{address}.provenance"
    assert unlinked.provenance_url is None  # its full address isn't known
    assert at_base.url.startswith("https://files.invalid/v1/toy-1.0%2Bcu130-")


def test_json_has_what_html_cannot() -> None:
    page = read(simple_pages([make_entry()], ".."), "json")

    (file,) = page.packages
    time = datetime.datetime(2026, 11, 23, 10, tzinfo=datetime.timezone.utc)
    assert (file.size, file.upload_time) == (7, time)
    assert page.versions == ["1.0+cu130"]


@pytest.mark.parametrize("form", ["html", "json"])
def test_yanks_with_a_reason(form: str) -> None:
    yanked = make_entry(yanked='wrong on "sm_120" <all>')

    (file,) = read(simple_pages([yanked], ".."), form).packages

    assert (file.is_yanked, file.yanked_reason) == (True, 'wrong on "sm_120" <all>')


def test_lists_projects_by_their_normalised_names() -> None:
    pages = simple_pages([make_entry("Toy_B-1.0-py3-none-any.whl"), make_entry()], "..")

    listed = json.loads(pages["index.json"])["projects"]
    assert listed == [{"name": "toy"}, {"name": "toy-b"}]
    html = pypi_simple.IndexPage.from_html(pages["index.html"])
    assert html.projects == ["toy", "toy-b"]
    assert "toy-b/index.html" in pages


def test_orders_by_version_not_by_text() -> None:
    names = [f"toy-{version}-py3-none-any.whl" for version in ("1.10", "1.9", "1.10.post1")]

    page = read(simple_pages(map(make_entry, names), ".."), "json")

    assert page.versions == ["1.9", "1.10", "1.10.post1"]


def test_json_form_says_what_a_wheel_runs_with() -> None:
    entry = make_entry(WHEEL)
    pages = simple_pages([entry], "../files", facts={entry.sha256: {"archs": ("90",)}})

    [file] = json.loads(pages[f"{entry.project}/index.json"])["files"]
    assert file["_runs-with"] == {"archs": ["90"]}
    assert b"runs-with" not in pages[f"{entry.project}/index.html"]
