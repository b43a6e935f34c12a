from __future__ import annotations

import re

import pytest

from cuwheel.check.explain.literals import required_texts


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
        (r"name[.]so \(x\)", ("name.so (x)",)),
        (r"a\x62\u0063[]x]", ("abc",)),
        (r"libc\{(?P<x>ab){2}\}", ("libc{ab",)),
        (r"(?<!no )(?-i:Match)(?! here)", ("match",)),
        (r"(?P<x>word) is (?P=x)", ("word is ",)),
        ("(?:long enough){0,2}word", ("word",)),
        (r"first\.|second", ("first.", "second")),
    ],
)
def test_finds_texts(regex: str, texts: tuple[str, ...]) -> None:
    assert required_texts(re.compile(regex, re.IGNORECASE))[:1] == ((texts,) if texts else ())


@pytest.mark.parametrize(
    ("regex", "first"),
    [
        (r"begins here\s+and goes on somewhere else", "begins here"),
        (r"begins here[^x]and goes on somewhere else", "begins here"),
        (r"begins here(?:\n|, )and goes on somewhere else", "begins here"),
        (r"begins here\W{0,3}and goes on somewhere else", "begins here"),
        (r"begins\s+and goes on somewhere else", "and goes on somewhere else"),
        (r"begins here[^\n]{0,9}and goes on somewhere else", "and goes on somewhere else"),
        (r"begins here['\"]?and goes on somewhere else", "and goes on somewhere else"),
        (r"begins here(?!\n)and goes on somewhere else", "and goes on somewhere else"),
    ],
)
def test_prefers_text_of_the_first_line(regex: str, first: str) -> None:
    assert required_texts(re.compile(regex))[0] == (first,)


def test_prefers_alternatives_with_the_longest_shortest_text() -> None:
    regex = re.compile("(?:ab|cdefghijk) (?:lmno|pqrs)")

    assert required_texts(regex) == ((" lmno", " pqrs"), ("lmno", "pqrs"), ("ab", "cdefghijk"))


@pytest.mark.parametrize("regex", ["(?(1)yes)", "(?#comment)", r"\1"])
def test_refuses_unsupported_syntax(regex: str) -> None:
    with pytest.raises(re.error):
        required_texts(re.compile(f"(x){regex}"))
