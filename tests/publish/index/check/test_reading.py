from __future__ import annotations

import json
from typing import Any

import pytest

from cuwheel.publish.index.check.reading import RawPage, read_listing, read_projects

URL = "https://host/simple/toy/"
FILE = {"filename": "toy-1.0.zip", "url": "../../toy-1.0.zip", "hashes": {}}


def json_page(*files: object, **more: object) -> RawPage:
    data = {"meta": {"api-version": "1.1"}, "name": "toy", "files": files, **more}
    return RawPage(url=URL, requested=URL, content=json.dumps(data).encode(), is_json=True)


def html_page(attributes: str) -> RawPage:
    text = f'<a href="../../toy-1.0.zip" {attributes}>toy-1.0.zip</a>'
    return RawPage(url=URL, requested=URL, content=text.encode(), is_json=False)


@pytest.mark.parametrize(
    ("attributes", "metadata"),
    [
        ({"core-metadata": {"SHA256": "AB"}}, {"sha256": "ab"}),
        ({"core-metadata": True}, {}),
        ({"core-metadata": False}, None),
        ({"dist-info-metadata": {"sha256": "ab"}}, {"sha256": "ab"}),
        ({"data-dist-info-metadata": True}, {}),
    ],
)
def test_reads_all_names_of_metadata(attributes: dict[str, Any], metadata: object) -> None:
    (file,) = read_listing(json_page({**FILE, **attributes}), "toy").files

    assert file.metadata == metadata


@pytest.mark.parametrize(
    ("attributes", "metadata"),
    [
        ('data-core-metadata="sha256=AB"', {"sha256": "ab"}),
        ('data-core-metadata="true"', {}),
        ('data-core-metadata="false"', None),
        ('data-dist-info-metadata="sha256=ab"', {"sha256": "ab"}),
    ],
)
def test_reads_both_names_in_html(attributes: str, metadata: object) -> None:
    (file,) = read_listing(html_page(attributes), "toy").files

    assert file.metadata == metadata


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({**FILE, "size": "many"}, "size"),
        ({**FILE, "yanked": 1}, "yanked"),
        ({**FILE, "provenance": "../toy"}, "provenance"),
        ({"filename": "toy-1.0.zip"}, "url"),
        ("toy", "it"),
    ],
)
def test_names_the_field_that_is_malformed(entry: object, field: str) -> None:
    listing = read_listing(json_page(entry, FILE), "toy")

    assert [file.name for file in listing.files] == ["toy-1.0.zip"]
    assert listing.faults[0].code == "entry"
    assert field in listing.faults[0].fact


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 1}', "[" * 100_000])
def test_refuses_other_content(text: str) -> None:
    page = RawPage(url=URL, requested=URL, content=text.encode(), is_json=True)

    with pytest.raises(ValueError, match=r"."):
        read_listing(page, "toy")


def test_files_on_the_host_get_its_password() -> None:
    page = json_page(FILE, {**FILE, "url": "https://other/toy-1.0.zip"})
    page = RawPage(
        url=URL, requested="https://me:secret@host/simple/toy/", content=page.content, is_json=True
    )

    same_host, other = read_listing(page, "toy").files

    assert same_host.url == "https://me:secret@host/toy-1.0.zip"
    assert other.url == "https://other/toy-1.0.zip"


def test_reads_projects_of_both_forms() -> None:
    html = RawPage(url=URL, requested=URL, content=b'<a href="a-b/">A.b</a>', is_json=False)
    data = {"meta": {"api-version": "1.0"}, "projects": [{"name": "A.b"}]}
    page = RawPage(url=URL, requested=URL, content=json.dumps(data).encode(), is_json=True)

    assert read_projects(html) == (("A.b", f"{URL}a-b/"),)
    assert read_projects(page) == (("A.b", ""),)
