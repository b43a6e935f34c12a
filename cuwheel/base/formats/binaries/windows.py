"""Windows of a long stream that overlap, so that each match is complete in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LOOKAHEAD = 4096  # bytes after the start of a match; no path of Linux is longer (PATH_MAX)
_SMALL = 2 * LOOKAHEAD


class Window(NamedTuple):
    """Part of a stream.

    Matches that begin from `data[begin]` up to, and without, `data[end]` belong to this window
    only. One byte before it and `LOOKAHEAD` bytes behind it are included, unless the stream ends.

    Attributes:
        offset: of `data` in the stream, bytes; -1 in the first, which has a zero before.
        begin: in `data`.
        end: in `data`.
    """

    data: bytes
    offset: int
    begin: int
    end: int


class Windows:
    """Cutter of a stream into windows; large pieces are windows themselves, without a copy."""

    def __init__(self) -> None:
        self._tail = b"\0"  # its first byte belonged to a window before
        self._offset = -1

    def feed(self, piece: bytes) -> Iterator[Window]:
        """Take the next piece; a match that begins near its end comes with the piece after it."""
        if len(piece) <= _SMALL:
            self._tail += piece
            if len(self._tail) > _SMALL:
                yield self._keep(self._tail, self._offset)
            return
        seam, middle = self._tail + piece[: LOOKAHEAD + 1], self._offset + len(self._tail)
        yield Window(seam, self._offset, 1, len(self._tail) + 1)
        yield self._keep(piece, middle)

    def finish(self) -> Window:
        """Return the rest when the stream has ended."""
        return Window(self._tail, self._offset, 1, len(self._tail))

    def _keep(self, data: bytes, offset: int) -> Window:
        end = len(data) - LOOKAHEAD
        self._tail, self._offset = data[end - 1 :], offset + end - 1
        return Window(data, offset, 1, end)
