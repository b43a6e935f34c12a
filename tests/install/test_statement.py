"""What a statement has to say of a wheel, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.errors import WheelStatementError
from cuwheel.install.statement import check_statement, stated_sha256
from tests.support.installed import statement

WHEEL = Path("toy-1.0-py3-none-any.whl")
SHA256 = "ab" * 32


def check(content: str, *, is_required: bool = False) -> str:
    found = check_statement(WHEEL, SHA256, content.encode(), is_required=is_required)
    assert found is not None
    return found.builder


def test_takes_statement_about_the_wheel() -> None:
    content = statement(WHEEL.name, SHA256)

    assert check(content, is_required=True) == "urn:test"
    assert stated_sha256(content.encode()) == SHA256


def test_takes_wheel_without_statement() -> None:
    assert check_statement(WHEEL, SHA256, None, is_required=False) is None
    assert stated_sha256(None) == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (statement(WHEEL.name, "0" * 64), "not about this wheel"),
        (statement(WHEEL.name, SHA256, predicateType="https://example.org/x"), "not about"),
        (statement(WHEEL.name, SHA256, subject=[]), "can't be read"),
        (statement(WHEEL.name, SHA256, predicate={}), "can't be read"),
        (statement(WHEEL.name, SHA256, predicate=[]), "can't be read"),
        ("[]", "can't be read"),
        ("[" * 100_000, "can't be read"),
        ("", "can't be read"),
        ("<html>", "can't be read"),
    ],
)
def test_refuses_what_is_no_statement_about_it(content: str, words: str) -> None:
    with pytest.raises(WheelStatementError, match=words):
        check(content)
