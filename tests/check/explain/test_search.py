"""The search of a block in parts finds what a search of the whole block finds."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from cuwheel.check.explain.search import Search, parts

_TEXTS = ("error: ", "ror: x", "fatal", "no such file or directory")
_READ = 2000  # bytes of a line


def expected(block: bytes, search: Search) -> list[tuple[int, int]]:
    """Return texts and places in a whole block, without those in the unread part of a line."""
    hits = search.hits(block)
    return [(t, start) for t, start, _ in hits if start - block.rfind(b"\n", 0, start) <= _READ]


@pytest.mark.parametrize("longest", [60, 2_010, 9_000])
def test_finds_the_same_in_parts(longest: int) -> None:
    search, chance = Search(_TEXTS), random.Random(longest)
    words = [*_TEXTS, "x", "nvcc"]
    lines = []
    for _ in range(600):
        line = " ".join(chance.choices(words, k=chance.randint(0, longest // 8)))
        lines.append(line.encode())
    block = b"\n".join(lines)

    with ThreadPoolExecutor(1) as searcher:
        chosen = [(block, part) for part in search.parts(block)]
        found = [(t, at + s) for at, hits in search.in_parts(chosen, searcher) for t, s, _ in hits]

    assert sorted(found) == sorted(expected(block, search))


@pytest.mark.parametrize("length", [_READ - 1, _READ, _READ + 1])
def test_reads_a_line_up_to_its_limit(length: int) -> None:
    block = b"a" * length + b"\nfatal"

    ranges = list(parts(block, 5))

    assert ranges[-1][1] == len(block)
    assert sum(limit - start for start, _, limit in ranges) >= min(length, _READ) + len("fatal")


def test_skips_what_a_long_line_has_more() -> None:
    block = b"a" * 60_000

    assert list(parts(block, 5)) == [(0, _READ + 4, _READ)]
