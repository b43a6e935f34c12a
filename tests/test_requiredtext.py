from __future__ import annotations

import re

import pytest

from cuwheel.requiredtext import required_texts


@pytest.mark.parametrize(
    ("regex", "texts"),
    [
        ("unsupported GNU version", ("unsupported gnu version",)),
        (r"one \d+ and a longer text", (" and a longer text",)),
        ("(?:first|second) x", ("first", "second")),
        ("(?P<name>first|second)", ("first", "second")),
        ("(?:error one|error two)", ("error one", "error two")),
        ("error (?:one|two|)", ("error ", "error one", "error two")),
        (r"(?:required)+ a", ("required",)),
        (r"(?:optional)? text", (" text",)),
        (r"\d+|word", ()),
        (r"\w+", ()),
        ("größer als", ("er als",)),
    ],
)
def test_finds_texts(regex: str, texts: tuple[str, ...]) -> None:
    assert required_texts(re.compile(regex, re.IGNORECASE))[:1] == ((texts,) if texts else ())


def test_takes_alternatives_with_the_longest_shortest() -> None:
    regex = re.compile("(?:ab|cdefghijk) (?:lmno|pqrs)")

    assert required_texts(regex) == ((" lmno", " pqrs"), ("lmno", "pqrs"), ("ab", "cdefghijk"))
