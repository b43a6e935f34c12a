"""The text of a log of any size, encoding and decoration, block by block."""

from __future__ import annotations

import codecs
import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

LINES_OF_MESSAGE = 3  # of one message, at most
_BLOCK = 1 << 20  # bytes read at once
_LONGEST = 1 << 16  # bytes of a line; the rest counts as another line

_CONTROLS = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_TEXT_PER_CONTROL = 50
_JSON_START = re.compile(rb'\s*(?:\{\s*)?"')
_JSON = json.JSONDecoder()  # `json.loads` looks for an encoding in each line
_LONGEST_JSON = 1 << 24  # bytes of a line of JSON
# Where collectors put a line: Docker, Kubernetes, Python's and Go's loggers, Elasticsearch.
_JSON_KEYS = ("log", "message", "msg", "text", "line", "output", "body")
_GCC_JSON = re.compile(rb'\[\{"kind": "[^\n]+')  # -fdiagnostics-format=json
_GAP = b" " * 64  # blanks with which a copy of a terminal's screen breaks a word
_IN_WORD = re.compile(rb"(?<=[a-z]) {64,}(?=[a-z])")
_SAMPLE = 200  # bytes that show whether a letter takes two

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",  # by `>` of Windows PowerShell
    codecs.BOM_UTF16_BE: "utf-16",
}
# Colours, cursor movements and links of terminals: ECMA-48, and OSC of xterm.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_COLON = re.compile(r"[\xa0\u202f ]: ?|[\xa0\u202f ]?\uff1a")  # French, and CJK
_QUOTED = re.compile(  # in French with blanks within, in German the other way round
    r"«[\xa0\u202f ]?([^«»\n]*?)[\xa0\u202f ]?»|»([^«»\n]*)«"
)
_QUOTE = re.compile(r"[«»„“”「」]")
# Prefixes of the programs that run builds.
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
    | [+|][ ](?=Exception[ ]Group|Traceback|[\w.]+:[ ])  # Python's exception groups
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some lines of a log.

    Attributes:
        text: the lines in UTF-8, without colours, tabs and carriage returns at their ends.
        fresh: bytes of it that no later block repeats; the rest is a look-ahead.
        number: of its first line in the log, from 1.
    """

    text: bytes
    fresh: int
    number: int


def blocks(stream: IO[bytes]) -> Iterator[Block]:
    """Read a log, with a few megabytes of it in memory."""
    text, number = b"", 1
    for piece in _pieces(stream):
        fresh = _before_last_lines(text) if len(text) > _LONGEST else 0
        if fresh:
            yield Block(text=text, fresh=fresh, number=number)
            number += text.count(b"\n", 0, fresh)
        text = text[fresh:] + piece
    if text:
        yield Block(text=text, fresh=len(text), number=number)


def is_text(start: bytes) -> bool:
    """Return True if the start of a file is of text, not of a program or an archive.

    A log that was written by two programs, or allocated first, has zero bytes between its lines.
    """
    if b"\0" not in start or _encoding(start):
        return True
    rest = start.replace(b"\0", b"")
    return len(_CONTROLS.findall(rest)) * _TEXT_PER_CONTROL < len(rest)


def undecorated(line: str) -> str:
    """Return a line without the prefixes of CI systems, Docker and launchers."""
    for _ in range(3):  # docker compose within GitHub, and so on
        prefix = _PREFIX.match(line)
        if not prefix:
            break
        line = line[prefix.end() :]
    return line


def in_english(text: str, translations: Mapping[str, str]) -> str:
    """Return lines with the phrases, quotes and colons of translated tools in English."""
    known = _any_of(tuple(translations))
    quoted = _QUOTED.sub(lambda name: f"'{name[1] or name[2] or ''}'", _COLON.sub(": ", text))
    plain = _QUOTE.sub("'", quoted)
    return known.sub(lambda phrase: translations[phrase[0]], plain)


@functools.cache
def _any_of(phrases: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)  # "fatal error" before "error"
    return re.compile("|".join(map(re.escape, longest_first)))


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield whole lines, and parts of lines that are too long."""
    begun = b""
    for raw in _with_line_ends(_in_utf8(stream)):
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


def _with_line_ends(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a log with the line ends of its content.

    They are carriage returns alone in some; in a log collector's output they are within JSON.
    """
    first = next(pieces, b"")
    is_json = _JSON_START.match(first) is not None
    returns_only = b"\r" in first and first.find(b"\n", 0, -1) < 0
    whole = itertools.chain([first], pieces)
    del first  # megabytes
    if is_json:
        yield from _without_json(whole)
    elif returns_only:
        yield from (piece.replace(b"\r", b"\n") for piece in whole)
    else:
        yield from whole


def _without_json(pieces: Iterable[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []  # joined once
    size = 0
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            yield _of_json(b"".join([*begun, piece[:end]]))
            begun, size = [], 0
        begun.append(piece[end:])
        size += len(piece) - end
        if size > _LONGEST_JSON:  # no JSON that is read
            yield from begun
            begun, size = [], 0
    yield _of_json(b"".join(begun))


def _of_json(text: bytes) -> bytes:
    """Return the texts in lines of JSON; a line that isn't JSON stays."""
    texts = []
    for line in text.split(b"\n"):
        try:
            content = _JSON.decode(line.decode())
        except ValueError:  # it isn't UTF-8, or isn't JSON
            content = None
        if isinstance(content, dict):
            content = next(filter(None, map(content.get, _JSON_KEYS)), None)
        is_string = isinstance(content, str)
        texts.append(content.rstrip("\n").encode("utf-8", "replace") if is_string else line)
    return b"\n".join(texts)


def _plain(text: bytes) -> bytes:
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    if b"\r" in text:  # a search is ten times faster than an empty replacement
        text = text.replace(b"\r\n", b"\n")
    if b"\t" in text:
        text = text.replace(b"\t", b" ")
    if _GAP in text:
        text = _IN_WORD.sub(b"", text)
    if b'[{"kind": "' in text:
        text = _GCC_JSON.sub(_usual_diagnostics, text)
    return _ESCAPES.sub(b"", text) if b"\x1b" in text else text


def _usual_diagnostics(line: re.Match[bytes]) -> bytes:
    """Return GCC's diagnostics and their notes as it prints them without an option."""
    try:
        waiting = json.loads(line[0])
        lines = []
        while waiting:
            first = waiting.pop(0)
            waiting[:0] = first.get("children", [])
            place = first["locations"][0]["caret"]
            where = "{file}:{line}:{column}".format(**place)
            lines.append(f"{where}: {first['kind']}: {first['message']}")
    except (ValueError, LookupError, AttributeError, TypeError):
        return line[0]
    return "\n".join(lines).encode("utf-8", "replace")


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
    """Return the encoding of UTF-16 or of a mark; empty: UTF-8."""
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    for name, zeros, letters in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        # In tools' output nearly every second byte is zero then, and no other one.
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
