from __future__ import annotations

import random
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from cuwheel.binaries.windows import LOOKAHEAD, Window, Windows

if TYPE_CHECKING:
    from collections.abc import Iterator

_KIB = 1 << 10


def _windows(content: bytes, sizes: Iterator[int]) -> list[Window]:
    windows, found, place = Windows(), list[Window](), 0
    while place < len(content):
        piece = content[place : place + next(sizes)]
        found += windows.feed(piece)
        place += len(piece)
    return [*found, windows.finish()]


@pytest.mark.parametrize(
    "largest",
    [3, LOOKAHEAD, 2 * LOOKAHEAD + 1, 5 * LOOKAHEAD, 100 * _KIB],
    ids=lambda size: f"up to {size}",
)
def test_gives_each_place_to_one_window(largest: int) -> None:
    chance = random.Random(largest)
    content = chance.randbytes(64 * _KIB)

    found = _windows(content, (chance.randint(1, largest) for _ in content))

    offsets = [range(one.offset + one.begin, one.offset + one.end) for one in found]
    assert list(chain.from_iterable(offsets)) == list(range(len(content)))


@pytest.mark.parametrize("largest", [3, 2 * LOOKAHEAD + 1, 100 * _KIB])
def test_shows_what_stands_around_each_place(largest: int) -> None:
    chance = random.Random(largest)
    content = b"\0" + chance.randbytes(64 * _KIB)

    for one in _windows(content[1:], (chance.randint(1, largest) for _ in content)):
        seen = content[one.offset + one.begin : one.offset + one.end + LOOKAHEAD + 1]
        assert one.data[one.begin - 1 : one.end + LOOKAHEAD] == seen


def test_gives_large_piece_without_copy() -> None:
    piece = bytes(64 * _KIB)

    assert any(one.data is piece for one in Windows().feed(piece))
