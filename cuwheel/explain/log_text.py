"""A log as text: any size, encoding and decoration, read block by block."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINES_OF_MESSAGE = 3  # that one message may take
_BLOCK = 1 << 22  # bytes read at once
_LONGEST = 1 << 16  # bytes of a line; what comes behind counts as one more line

_SAMPLE = 200  # bytes that show whether there are two for a letter

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",  # what `>` of Windows PowerShell writes
    codecs.BOM_UTF16_BE: "utf-16",
}
# Colours, cursor movements and links of terminals: ECMA-48, and OSC of xterm.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Lines that may be a paragraph which CMake filled: cmDocumentationFormatter, 77 columns.
_FILLED = re.compile(rb"\n((?:  (?! )[^\n]{55,75}\n)+  (?! )[^\n]+)")
_WIDTH = 77
# What those who run builds put in front of each line.
_PREFIX = re.compile(
    r"""\s*(?:
      # GitHub, GitLab, journald
      \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[ ]?
    | \#\d+[ ]\d+\.\d+[ ]?  # docker buildx
    | \[\d\d:\d\d:\d\d(?:\.\d+)?\][ ]?  # Jenkins' timestamper
    | \d+\.\d{2,3}[ ]+  # docker's summary of a failed step
    | [A-Za-z][\w.-]*-\d+[ ]+\|[ ]  # docker compose
    | \[(?:rank|default)?\d+\]:[ ]?  # torchrun
    | \([A-Za-z_]\w*[ ]pid=\d+[^)]*\)[ ]?  # ray
    | \#\#\[\w+\]  # GitHub, Azure
    | ::\w+::
    | E[ ]{3,}(?=\S)  # pytest
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some lines of a log.

    Attributes:
        text: them, in UTF-8, without colours and tabs, and without carriage returns at
            their ends.
        fresh: bytes of it that no later block repeats; the rest is there to be looked ahead at.
        number: of its first line in the log, from 1.
    """

    text: bytes
    fresh: int
    number: int


def blocks(stream: IO[bytes]) -> Iterator[Block]:
    """Read a log; never holds more than a few megabytes of it."""
    text, number = b"", 1
    for piece in _pieces(stream):
        fresh = _before_last_lines(text) if len(text) > _LONGEST else 0
        if fresh:
            yield Block(text=text, fresh=fresh, number=number)
            number += text.count(b"\n", 0, fresh)
        text = text[fresh:] + piece
    if text:
        yield Block(text=text, fresh=len(text), number=number)


def unwrapped(given: Iterable[Block]) -> Iterator[Block]:
    """The blocks, and behind each paragraph that CMake filled its lines as they were before that.

    What a compiler said in a check of CMake's is torn apart so. What is found in the paragraph as
    it stands is found as before.
    """
    for block in given:
        if b"\n  " not in block.text and not block.text.startswith(b"  "):
            yield block  # no line of any paragraph
            continue
        start, number = 0, block.number
        for found in _FILLED.finditer(b"\n" + block.text[: block.fresh]):
            whole = _joined(found[1].split(b"\n"))
            if not whole:
                continue
            at = number + block.text.count(b"\n", start, found.start())
            end = min(found.end(), block.fresh)  # with the newline: one was put in front of all
            yield _part(block, start, end, number)
            yield Block(text=whole, fresh=len(whole), number=at)
            start, number = end, at + whole.count(b"\n")
        if start < block.fresh:
            yield _part(block, start, block.fresh, number) if start else block


def _part(block: Block, start: int, end: int, number: int) -> Block:
    """Some lines of a block, with those behind them to look ahead at."""
    ahead = end
    for _ in range(LINES_OF_MESSAGE):
        ahead = block.text.find(b"\n", ahead) + 1 or len(block.text)
    return Block(text=block.text[start:ahead], fresh=end - start, number=number)


def _joined(lines: list[bytes]) -> bytes:
    """Those that were one as one, with empty ones behind it; nothing where none were."""
    made = lines[:1]
    width, empty = _columns(lines[0]), 0
    for line in lines[1:]:
        if width + 1 + _columns(line[2:].partition(b" ")[0]) > _WIDTH:  # it had no more room
            made[-1 - empty] += b" " + line[2:]
            empty += 1
            made.append(b"")
        else:
            made.append(line)
            empty = 0
        width = _columns(line)
    return b"\n".join([*made, b""]) if b"" in made else b""


def _columns(line: bytes) -> int:
    return len(line.decode("utf-8", "replace"))


def is_text(start: bytes) -> bool:
    """Whether a file that begins so can be read here: programs and archives can't."""
    return b"\0" not in start or bool(_encoding(start))


def undecorated(line: str) -> str:
    """A line without what a CI system, Docker or a launcher put in front of it."""
    for _ in range(3):  # docker compose within GitHub, and so on
        found = _PREFIX.match(line)
        if not found:
            break
        line = line[found.end() :]
    return line


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """Whole lines, but for what is too long for one."""
    begun = b""
    for raw in _in_utf8(stream):
        text = begun + raw
        end = text.rfind(b"\n") + 1
        begun = text[end:]
        if end:
            yield _plain(text[:end])
        whole = len(begun) - len(begun) % _LONGEST
        for start in range(0, whole, _LONGEST):
            yield _plain(begun[start : start + _LONGEST]) + b"\n"
        begun = begun[whole:]
    if begun:
        yield _plain(begun)


def _plain(text: bytes) -> bytes:
    if b"\r" in text:  # to look is ten times faster than to replace nothing
        text = text.replace(b"\r\n", b"\n")
    if b"\t" in text:
        text = text.replace(b"\t", b" ")
    return _ESCAPES.sub(b"", text) if b"\x1b" in text else text


def _in_utf8(stream: IO[bytes]) -> Iterator[bytes]:
    first = stream.read(_BLOCK)
    encoding = _encoding(first)
    if not encoding:
        while first:
            yield first
            first = stream.read(_BLOCK)
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    while first:
        yield decoder.decode(first).encode("utf-8", "replace")
        first = stream.read(_BLOCK)
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _encoding(start: bytes) -> str:
    """Empty: UTF-8, or near enough to it."""
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    for name, zeros, letters in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        # Of what tools print nearly every second byte is zero then, and no other one.
        sample = start[:_SAMPLE]
        if sample[zeros::2].count(0) * 3 > len(sample) and 0 not in sample[letters::2]:
            return name
    return ""


def _before_last_lines(text: bytes) -> int:
    end = len(text)
    for _ in range(LINES_OF_MESSAGE):
        end = text.rfind(b"\n", 0, end)
        if end < 0:
            return 0
    return end + 1
