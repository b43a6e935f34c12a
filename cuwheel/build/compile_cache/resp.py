"""The server's side of Redis's protocol, as far as compile caches speak it: RESP2, "Redis
serialization protocol specification" in Redis's documentation.

What it reads comes from a package's build, so it has limits. docs/adr/0016.
"""  # noqa: D205 - one sentence

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import BufferedIOBase

OK = b"+OK\r\n"
PONG = b"+PONG\r\n"
NOTHING = b"$-1\r\n"

_END = b"\r\n"
_LONGEST_LINE = 32  # bytes; a line holds the kind and a number
_LARGEST = 512 << 20  # bytes; Redis's own limit for a value
_MAX_WORDS = 64  # of one command; caches send five at most


class ProtocolError(ConnectionError):
    """What came is no command of Redis."""


def read_command(stream: BufferedIOBase) -> list[bytes]:
    """The words of the next command.

    Raises:
        EOFError: the connection has ended.
        ProtocolError: this is another protocol, or more than a cache has to say.
    """
    count = _read_number(stream, b"*", _MAX_WORDS)
    return [_read_word(stream) for _ in range(count)]


def _read_word(stream: BufferedIOBase) -> bytes:
    size = _read_number(stream, b"$", _LARGEST)
    word = stream.read(size + len(_END))
    if len(word) < size + len(_END):
        raise EOFError
    return word[:size]


def _read_number(stream: BufferedIOBase, kind: bytes, most: int) -> int:
    line = stream.readline(_LONGEST_LINE)
    if not line:
        raise EOFError
    digits = line[1:].removesuffix(_END)
    if line[:1] != kind or not digits.isdigit() or int(digits) > most:
        raise ProtocolError("this is not a command of a compile cache")
    return int(digits)


def value_reply(value: bytes) -> bytes:
    """A string of bytes as it goes over the wire."""
    return b"$%d\r\n" % len(value) + value + _END


def number_reply(value: int) -> bytes:
    """An integer as it goes over the wire."""
    return b":%d\r\n" % value


def error_reply(text: str) -> bytes:
    """An error as it goes over the wire."""
    return b"-ERR " + text.encode() + _END
