"""Statements that match a wheel, and refusals of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from cuwheel.base.errors import PolicyError
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.retry import Attempts
from cuwheel.publish.install.statement import check_statement, fetch_statement, stated_sha256
from tests.support.publish.installations import statement
from tests.support.servers.http import Site, serving

WHEEL = Path("toy-1.0-py3-none-any.whl")
SHA256 = "ab" * 32


def check(content: str, *, is_required: bool = False) -> str:
    result = check_statement(WHEEL, SHA256, content.encode(), is_required=is_required)
    assert result is not None
    return result.builder


def test_takes_statement_about_the_wheel() -> None:
    content = statement(WHEEL.name, SHA256)

    assert check(content, is_required=True) == "urn:test"
    assert stated_sha256(content.encode()) == SHA256


def test_takes_wheel_without_statement() -> None:
    assert check_statement(WHEEL, SHA256, None, is_required=False) is None
    assert stated_sha256(None) == ""


def test_takes_hashes_alone_for_hashes() -> None:
    assert stated_sha256(statement(WHEEL.name, SHA256.upper()).encode()) == SHA256
    assert stated_sha256(statement(WHEEL.name, "../../deep").encode()) == ""


def test_takes_hash_in_capitals() -> None:
    assert check(statement(WHEEL.name, SHA256.upper())) == "urn:test"


def fetch(url: str) -> bytes | None:
    version = Version("1.0")
    offer = Offer(name=WHEEL.name, url=url, index="", version=version, is_wheel=True)
    return fetch_statement(offer, Attempts())


@pytest.mark.parametrize("status", [404, 410])
def test_knows_that_there_is_no_statement(status: int) -> None:
    with serving(Site(statuses=[status])) as site:
        assert fetch(site.url("/w.whl")) is None


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_takes_no_fault_for_no_statement(status: int) -> None:
    with (
        serving(Site(statuses=[status] * 99)) as site,
        pytest.raises(PolicyError, match="couldn't be downloaded") as caught,
    ):
        fetch(site.url("/w.whl", login="me:secret@"))

    assert f"answered {status}" in caught.value.why
    assert "secret" not in caught.value.why


def test_local_file_may_have_no_statement(tmp_path: Path) -> None:
    assert fetch((tmp_path / WHEEL.name).as_uri()) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (statement(WHEEL.name, "0" * 64), "not about this wheel"),
        (statement(WHEEL.name, SHA256, predicateType="https://example.org/x"), "not about"),
        (statement(WHEEL.name, SHA256, subject=[]), "can't be read"),
        (statement(WHEEL.name, SHA256, predicate={}), "can't be read"),
        (statement(WHEEL.name, SHA256, predicate=[]), "can't be read"),
        (statement(WHEEL.name, SHA256).replace('["90"]', "90"), "can't be read"),
        (statement(WHEEL.name, SHA256).replace('["90"]', "null"), "can't be read"),
        (statement(WHEEL.name, SHA256).replace('["90"]', "NaN"), "can't be read"),
        (statement(WHEEL.name, SHA256)[:-9], "can't be read"),
        ("[]", "can't be read"),
        ("[" * 100_000, "can't be read"),
        ("", "can't be read"),
        ("<html>", "can't be read"),
    ],
)
def test_refuses_what_is_no_statement_about_it(content: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        check(content)
