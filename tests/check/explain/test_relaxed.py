from __future__ import annotations

import io
import itertools
import re

import pytest

from cuwheel.check.explain import matches
from cuwheel.check.explain.catalogue import causes
from cuwheel.check.explain.explanation import Explainer, Explanation
from cuwheel.check.explain.lines import Lines
from cuwheel.check.explain.matches import Matches, Message
from cuwheel.check.explain.relaxed import is_same_for_digits, relaxed


@pytest.mark.parametrize("source", [r"line \d+: [^\n]{1,30}\w", "[0-9a-z]{2,3}", r"\b(?P<x>\S)$"])
def test_takes_all_digits_alike(source: str) -> None:
    assert is_same_for_digits(source)


@pytest.mark.parametrize("source", ["sm_90", "[1-9]", r"(?P<x>\w) (?P=x)", "error: (?!0)"])
def test_tells_digits_apart(source: str) -> None:
    assert not is_same_for_digits(source)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("sm_90", "sm_00"),
        ("error: (?!0|1)", "error: 0"),
        (r"(?P<x>\w+) is (?P=x)", "a1 is 00"),
        ("address 0xbad", "address 0x000"),
        (r"(?<=cu12)\.(?:so|a)", "cu00.so"),
    ],
)
def test_matches_whatever_the_digits_are(source: str, text: str) -> None:
    assert relaxed(source).search(text)


def test_still_needs_the_other_characters() -> None:
    assert not relaxed(r"sm_90 (?:is|was) missing").search("sm_00 is there")


def test_relaxes_all_patterns() -> None:
    patterns = [pattern for cause in causes().values() for pattern in cause.patterns]

    for pattern in patterns[::7]:
        relaxed(pattern.source)
        is_same_for_digits(pattern.source)


@pytest.fixture
def crash_loop() -> bytes:
    """Return the catalogue's examples, each several times with other digits."""
    examples = [example for cause in causes().values() for example in cause.examples[:1]][::6]
    digits = itertools.cycle(["7", "3", "9", "0", "1", "4"])
    others = (
        re.sub(r"\d(?=\d*\b)", lambda _: next(digits), example)
        for example in examples
        for _ in range(12)
    )
    address = (f"RuntimeError: CUDA error at 0x7f{n * 7919:06x}\n" for n in range(20))
    return "\n".join((*others, *address, *examples, "")).encode()


def test_answers_repeated_lines_like_single_ones(
    crash_loop: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    explanations = [Explainer().explain(io.BytesIO(crash_loop))]

    def message(_matches: Matches, _lines: Lines, texts: tuple[int, ...]) -> Message:
        return Message(texts, is_exact=True)

    monkeypatch.setattr(Matches, "message", message)
    explanations.append(Explainer().explain(io.BytesIO(crash_loop)))

    assert _content(explanations[0]) == _content(explanations[1])


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[matches.Use]:
    """Return the patterns that are tried, one by one."""
    tried: list[matches.Use] = []
    spans = matches.Use.spans

    def count(use: matches.Use, lines: Lines) -> matches.Spans | None:
        tried.append(use)
        return spans(use, lines)

    monkeypatch.setattr(matches.Use, "spans", count)
    return tried


def test_tries_a_pattern_once_for_lines_that_differ_in_digits(tries: list[matches.Use]) -> None:
    lines = "".join(
        f"[rank{n % 8}]: RuntimeError: value {n:06} at 0x7f{n:08x}\n" for n in range(500)
    )

    Explainer().explain(io.BytesIO(lines.encode()))

    assert len(tries) < 500


@pytest.mark.parametrize(("before", "is_tried"), [(1900, True), (2000, False)])
def test_tries_what_is_read_of_a_long_line(
    tries: list[matches.Use], before: int, *, is_tried: bool
) -> None:
    line = "-" * before + "RuntimeError: CUDA error: out of memory, nvcc fatal, not found\n"

    Explainer().explain(io.BytesIO(line.encode()))

    assert bool(tries) == is_tried


def _content(explanation: Explanation) -> tuple[object, ...]:
    return (explanation.causes, explanation.error, explanation.remedy, explanation.facts)
