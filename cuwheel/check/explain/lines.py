"""A cursor over the lines of a block of a log."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping

from cuwheel.check.explain.log_text import LINES_OF_MESSAGE, Block, in_english, undecorated

CHARACTERS = 2000  # of a line that are read
_BEFORE = 2  # lines shown around an unknown error
_AFTER = 6
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_ADDRESS = re.compile(rb"0x(?<![\w.-]0x)[0-9a-fA-F]{4,}")  # after a blank or a mark: in no prefix
_ZEROS = b"0x0000"
# The last line of a traceback whose class has another name than most: `pkg.NoSuchFile: text`.
_EXCEPTION = re.compile(r" *(?:\w+\.)*[A-Z]\w*(?<!Error)(?<!Exception)(?<!Exit)(?:: |$)")
_HEADING = re.compile(rb"\n(?:={3,}|_{3,}|-{3,}) ")
_TRACEBACK = 1 << 16  # bytes of one, or of a test's output, that are read


class Lines:
    """A cursor over the lines of a block.

    Attributes:
        start: of the line, in the block's text.
        end: of the line.
        message_end: of the last line of its message.
        is_translated: whether its window is in English.
    """

    def __init__(self, block: Block, lowered: bytes, before: list[str]) -> None:
        self._block = block
        self._lowered = lowered
        self._plain = _without_numbers(block.text)
        self._before = before
        self._size = len(block.text)
        self.start, self.end, self.message_end = 0, -1, 0
        self.is_translated = False
        self._counted = (0, block.number)  # a line's start and its number
        self._window = ""
        self._near = b""

    def go_to(self, offset: int) -> None:
        """Go to the line of a byte."""
        find = self._block.text.find
        self.start = self._block.text.rfind(b"\n", 0, offset) + 1
        end = find(b"\n", offset)
        self.end = self.message_end = self._size if end < 0 else end
        for _ in range(LINES_OF_MESSAGE - 1):
            end = find(b"\n", self.message_end + 1)
            if end < 0:
                self.message_end = self._size
                break
            self.message_end = end
        self._window = ""
        self._near = b""

    def at(self, start: int, number: int) -> Lines:
        """Return a cursor at a line whose start and number are known."""
        there = copy.copy(self)
        there.is_translated = False
        there.go_to(start)
        there._counted = (start, number)  # noqa: SLF001 - its own class
        return there

    @property
    def number(self) -> int:
        """The line's number in the log, from 1."""
        start, number = self._counted
        if start > self.start:
            start, number = 0, self._block.number
        number += self._block.text.count(b"\n", start, self.start)
        self._counted = (self.start, number)
        return number

    @property
    def text(self) -> str:
        """The line; of a progress bar, its last state."""
        line = _decoded(self._block.text[self.start : self.end])
        return line.rstrip("\r").rpartition("\r")[2].rstrip()

    @property
    def text_above(self) -> str:
        """The line above, as far as the block and the one before have it."""
        if not self.start:
            return self._before[-1] if self._before else ""
        start = self._block.text.rfind(b"\n", 0, self.start - 1) + 1
        return _decoded(self._block.text[start : self.start - 1])

    @property
    def message(self) -> bytes:
        """The line and the next ones of its message."""
        return self._block.text[self.start : self.message_end]

    def short_message(self, longest: int) -> bytes | None:
        """Return the message with a zero for each digit, also of hexadecimal addresses.

        None if it is longer, or if fewer lines follow than a message may have.
        """
        end = self.message_end
        is_short = end < self._size and end - self.start <= longest
        return self._plain[self.start : end] if is_short else None

    @property
    def has_address(self) -> bool:
        """True if the message may have a hexadecimal address."""
        return _ZEROS in self._plain[self.start : self.message_end]

    def without_numbers(self) -> Lines:
        """Return a cursor at the line with zeros for its numbers."""
        plain = self._plain[self.start : self.message_end]
        window = "\n".join(undecorated(_decoded(line)) for line in plain.split(b"\n"))
        return self.reading(window, plain.lower())

    @property
    def near(self) -> bytes:
        """The line and the next ones of its message, as far as they are read, in lower case."""
        if not self._near:
            near = self._lowered[self.start : self.message_end]
            if len(near) > CHARACTERS:
                near = b"\n".join(line[:CHARACTERS] for line in near.split(b"\n"))
            self._near = near
        return self._near

    @property
    def window(self) -> str:
        """The line and the next ones of its message, undecorated."""
        if not self._window:
            text, start, lines = self._block.text, self.start, []
            for _ in range(LINES_OF_MESSAGE):
                end = _end_of_line(text, start)
                lines.append(undecorated(_decoded(text[start:end])))
                start = end + 1
                if start >= len(text):
                    break
            self._window = "\n".join(lines)
        return self._window

    def translated(self, translations: Mapping[str, str]) -> Lines:
        """Return a cursor at the line whose window is in English."""
        english = in_english(self.window, translations)
        return self.reading(english, english.encode().lower())

    def reading(self, window: str, near: bytes) -> Lines:
        """Return a cursor at the line with another window."""
        _ = self.number  # counted once for all copies
        there = copy.copy(self)
        there._window = window  # noqa: SLF001 - its own class
        there._near = near  # noqa: SLF001
        there.is_translated = True
        return there

    @property
    def length(self) -> int:
        """Characters of the window's first line."""
        return len(self.window.partition("\n")[0])

    def end_of_traceback(self) -> Lines | None:
        """Return a cursor at an exception that no pattern names: the first line with the indent."""
        indent = self._lowered.find(b"traceback", self.start) - self.start
        limit = self.end + _TRACEBACK
        match = _line_from(indent).search(self._block.text, self.end, limit)
        if not match:
            return None
        there = copy.copy(self)
        there.go_to(match.end())
        return there if _EXCEPTION.match(undecorated(there.text)) else None

    def lines_to_heading(self) -> int:
        """Return how many lines follow up to pytest's next heading, or to the limit."""
        text, limit = self._block.text, self.end + _TRACEBACK
        match = _HEADING.search(text, self.end, limit)
        return text.count(b"\n", self.end, match.start() if match else limit)

    def context(self) -> dict[int, str]:
        """Return the line and those around it by number, as far as the block goes."""
        text, start = self._block.text, self.start
        for _ in range(_BEFORE):
            start = text.rfind(b"\n", 0, max(0, start - 1)) + 1
        above = [_decoded(line) for line in text[start : self.start].split(b"\n")[:-1]]
        above = [*self._before, *above][-_BEFORE:]
        below = text[self.start : self.end + _AFTER * CHARACTERS].split(b"\n")[: 1 + _AFTER]
        lines = [*above, *map(_decoded, below)]
        return {self.number - len(above) + index: line for index, line in enumerate(lines)}


def last_lines(block: Block) -> list[str]:
    """Return the last lines of a block that the next one doesn't repeat."""
    last = block.text[max(0, block.fresh - _BEFORE * CHARACTERS) : block.fresh].split(b"\n")
    return [_decoded(line) for line in last[-_BEFORE - 1 : -1]]


@functools.lru_cache
def _line_from(indent: int) -> re.Pattern[bytes]:
    """Return a pattern of a line whose text begins at a column."""
    return re.compile(rb"\n[^\n]{%d}(?=\S)" % indent)


def _end_of_line(text: bytes, offset: int) -> int:
    end = text.find(b"\n", offset)
    return len(text) if end < 0 else end


def _decoded(line: bytes) -> str:
    return line[:CHARACTERS].decode("utf-8", "replace")


def _without_numbers(text: bytes) -> bytes:
    plain = text.translate(_DIGITS)
    if b"0x" not in plain:
        return plain
    return _ADDRESS.sub(lambda number: b"0x" + b"0" * (len(number[0]) - 2), plain)
