"""A long stream cut into windows, so that whatever is looked for lies in one of them whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

REACH = 4096  # bytes that can be seen behind a beginning; no path of Linux is longer (PATH_MAX)
_SMALL = 2 * REACH


class Window(NamedTuple):
    """A part of a stream.

    What begins at `data[begin]` up to, and without, `data[end]` belongs to this window and to no
    other. One byte before it and `REACH` bytes behind it are there as well, unless the stream ends.

    Attributes:
        data: the bytes.
        place: where `data` begins in the stream, bytes; -1 in the first, which has a zero before.
        begin: in `data`.
        end: in `data`.
    """

    data: bytes
    place: int
    begin: int
    end: int


class Windows:
    """Cuts a stream that comes in pieces; large pieces are windows themselves, without a copy."""

    def __init__(self) -> None:
        self._tail = b"\0"  # its first byte belonged to a window before
        self._place = -1

    def feed(self, piece: bytes) -> Iterator[Window]:
        """Take the next piece; what begins near its end comes with the piece after it."""
        if len(piece) <= _SMALL:
            self._tail += piece
            if len(self._tail) > _SMALL:
                yield self._keep(self._tail, self._place)
            return
        seam, middle = self._tail + piece[: REACH + 1], self._place + len(self._tail)
        yield Window(seam, self._place, 1, len(self._tail) + 1)
        yield self._keep(piece, middle)

    def finish(self) -> Window:
        """What is left when the stream has ended."""
        return Window(self._tail, self._place, 1, len(self._tail))

    def _keep(self, data: bytes, place: int) -> Window:
        end = len(data) - REACH
        self._tail, self._place = data[end - 1 :], place + end - 1
        return Window(data, place, 1, end)
