from __future__ import annotations

import io

import pytest

from cuwheel.check.explain.catalogue import causes, signs
from cuwheel.check.explain.lines import Lines
from cuwheel.check.explain.log_text import Block
from cuwheel.check.explain.scanner import Scanner


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(causes().values(), signs())


@pytest.mark.parametrize("first", ["", "no-: bad interpreters"], ids=["blank", "only-alike"])
def test_keeps_the_order_of_failures_in_one_line(scanner: Scanner, first: str) -> None:
    log = f"{first}\n\n\n\n\nERROR: ValueError: no such thing\n"

    scan = scanner.scan(io.BytesIO(log.encode()))

    assert [failure.kind for failure in scan.failures] == ["exceptions", "messages", "wrappers"]


def test_searches_the_part_of_a_long_line_that_is_read() -> None:
    text = b"A" * 5000 + b"\nB\n" + b"C" * 3000 + b"\n"
    lines = Lines(Block(text=text, fresh=len(text), number=1), text.lower(), [])

    lines.go_to(0)

    assert lines.near == b"a" * 2000 + b"\nb\n" + b"c" * 2000
