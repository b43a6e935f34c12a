from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cuwheel.publish.index.check.page_rules import best_hash, check_page, compare_forms
from cuwheel.publish.index.check.reading import Listing, PageFile

NAME = "toy-1.0-py3-none-any.whl"
FILE = PageFile(
    name=NAME,
    url=f"https://host/files/{NAME}",
    hashes={"sha256": "ab" * 32},
    metadata={"sha256": "cd" * 32},
)
PAGE = Listing(where="simple/toy", url="https://host/simple/toy/", files=(FILE,))


def codes(page: Listing = PAGE, **changes: Any) -> list[str]:
    changed = replace(page, files=(replace(FILE, **changes),))
    return [violation.code for violation in check_page("toy", changed)]


def test_valid_page_has_no_finding() -> None:
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
        ({"hashes": {"sha1": "ab" * 20}}, "no-hash"),
        ({"requires_python": "3.8 or so"}, "requires-python"),
    ],
)
def test_finds_wrong_attributes(changes: dict[str, Any], code: str) -> None:
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
        ("toy-1.0-py3.8.egg", []),
    ],
)
def test_reads_names_as_pip_does(name: str, code: list[str]) -> None:
    assert codes(name=name, url=f"https://host/files/{name}") == code


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"hashes": {"sha256": "00" * 32}}, "hashes"),
        ({"metadata": {"sha256": "00" * 32}}, "metadata"),
        ({"requires_python": ">=3"}, "requires-python"),
        ({"name": "toy-2.0-py3-none-any.whl"}, "only the"),
    ],
)
def test_compares_the_forms(change: dict[str, Any], text: str) -> None:
    other = replace(PAGE, files=(replace(FILE, **change),))

    violations = list(compare_forms(PAGE, other))

    assert {violation.code for violation in violations} == {"forms"}
    assert text in violations[0].fact


def test_one_hash_of_several_is_no_difference() -> None:
    more = {**FILE.hashes, "md5": "ab" * 16}
    other = replace(PAGE, files=(replace(FILE, hashes=more),))

    assert list(compare_forms(PAGE, other)) == []


def test_prefers_the_best_hash() -> None:
    assert best_hash({"md5": "ab" * 16, "sha512": "ab" * 64}) == "sha512"
    assert best_hash({"md5": "ab" * 16, "sha256": "short"}) == "md5"
