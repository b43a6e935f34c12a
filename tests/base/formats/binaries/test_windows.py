from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain

import pytest

from cuwheel.base.formats.binaries.windows import LOOKAHEAD, Window, Windows

_KIB = 1 << 10


def _windows(content: bytes, sizes: Iterator[int]) -> list[Window]:
    windows, result, place = Windows(), list[Window](), 0
    while place < len(content):
        piece = content[place : place + next(sizes)]
        result += windows.feed(piece)
        place += len(piece)
    return [*result, windows.finish()]


@pytest.mark.parametrize(
    "largest",
    [3, LOOKAHEAD, 2 * LOOKAHEAD + 1, 5 * LOOKAHEAD, 100 * _KIB],
    ids=lambda size: f"up to {size}",
)
def test_gives_each_place_to_one_window(largest: int) -> None:
    chance = random.Random(largest)
    content = b"\0" + chance.randbytes(64 * _KIB)

    windows = _windows(content[1:], (chance.randint(1, largest) for _ in content))

    offsets = [range(each.offset + each.begin, each.offset + each.end) for each in windows]
    assert list(chain.from_iterable(offsets)) == list(range(len(content) - 1))
    for window in windows:
        begin, end = window.offset + window.begin, window.offset + window.end
        around = content[begin : end + LOOKAHEAD + 1]
        assert window.data[window.begin - 1 : window.end + LOOKAHEAD] == around


def test_gives_large_piece_without_copy() -> None:
    piece = bytes(64 * _KIB)

    assert any(window.data is piece for window in Windows().feed(piece))
