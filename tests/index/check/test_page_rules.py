from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cuwheel.index.check.listing import ListedFile, Listing
from cuwheel.index.check.page_rules import best_hash, form_findings, page_findings

NAME = "toy-1.0-py3-none-any.whl"
FILE = ListedFile(
    name=NAME,
    url=f"https://host/files/{NAME}",
    hashes={"sha256": "ab" * 32},
    metadata={"sha256": "cd" * 32},
)
PAGE = Listing(form="HTML", where="simple/toy", url="https://host/simple/toy/", files=(FILE,))


def codes(page: Listing = PAGE, **changes: Any) -> list[str]:
    changed = replace(page, files=(replace(FILE, **changes),))
    return [one.code for one in page_findings("toy", changed)]


def test_sound_page_has_none() -> None:
    assert codes() == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"url": f"http://host/files/{NAME}"}, "insecure-link"),
        ({"url": "https://host/files/other.whl"}, "link"),
        ({"url": f"file:///files/{NAME}"}, "link"),
        ({"url": "https://host/files/"}, "link"),
        ({"hashes": {"sha256": "ab"}}, "no-hash"),
        ({"hashes": {"crc": "abcd"}}, "no-hash"),
        ({"hashes": {"sha1": "ab" * 20}}, "weak-hash"),
        ({"requires_python": "3.8 or so"}, "requires-python"),
        ({"yanked": ""}, "yank-reason"),
        ({"metadata": None}, "no-metadata"),
        ({"metadata": None, "old_metadata": {}}, "old-metadata-key"),
        ({"old_metadata": {}}, "metadata-keys"),
    ],
)
def test_finds_what_an_attribute_says(changes: dict[str, Any], code: str) -> None:
    assert codes(**changes) == [code]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("other-1.0-py3-none-any.whl", ["file-name"]),
        ("toy-1.0-none-any.whl", ["file-name"]),
        ("toy-one-py3-none-any.whl", ["file-name"]),
        ("Toy-1.0-py3-none-any.whl", []),
        ("toy-1.0.tar.gz", []),
        ("other-1.0.tar.gz", ["file-name"]),
        ("toy-1.0.tar.bz2", []),
        ("toy-1.0-py3.8.egg", ["file-kind"]),
    ],
)
def test_reads_names_as_pip_does(name: str, code: list[str]) -> None:
    assert codes(name=name, url=f"https://host/files/{name}") == code


@pytest.mark.parametrize(
    ("date", "code"),
    [
        ("2026-01-01T00:00:00.123456Z", []),
        ("2026-01-01T00:00:00+00:00", ["date"]),
        ("2026-13-01T00:00:00Z", ["date"]),
        ("9999-01-01T00:00:00Z", ["date"]),
    ],
)
def test_reads_dates_as_pep_700_has_them(date: str, code: list[str]) -> None:
    page = replace(PAGE, form="JSON", has_sizes=True, versions=("1.0.0",))

    assert codes(page, size=1, uploaded=date) == code


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"hashes": {"sha256": "00" * 32}}, "hashes"),
        ({"metadata": {"sha256": "00" * 32}}, "METADATA"),
        ({"requires_python": ">=3"}, "requires-python"),
        ({"name": "toy-2.0-py3-none-any.whl"}, "only the"),
    ],
)
def test_compares_the_forms(change: dict[str, Any], word: str) -> None:
    other = replace(PAGE, form="JSON", files=(replace(FILE, **change),))

    findings = list(form_findings(PAGE, other))

    assert {one.code for one in findings} == {"forms"}
    assert word in findings[0].fact


def test_one_hash_of_several_is_no_difference() -> None:
    more = {**FILE.hashes, "md5": "ab" * 16}
    other = replace(PAGE, form="JSON", files=(replace(FILE, hashes=more),))

    assert list(form_findings(PAGE, other)) == []


def test_goes_by_the_best_hash() -> None:
    assert best_hash({"md5": "ab" * 16, "sha512": "ab" * 64}) == "sha512"
    assert best_hash({"md5": "ab" * 16, "sha256": "short"}) == "md5"
