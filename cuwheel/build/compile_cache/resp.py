"""Redis's wire protocol, as far as compile caches speak it: RESP2, "Redis serialization protocol
specification" in Redis's documentation.
"""  # noqa: D205 - one sentence

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    Value: TypeAlias = "bytes | int | list[Value] | None"

    class Readable(Protocol):
        """What bytes can be read from, as a file or a connection."""

        def read(self, size: int, /) -> bytes:
            """So many bytes; fewer only at the end."""

        def readline(self, size: int, /) -> bytes:
            """A line with its end, or so many bytes of it."""


OK = b"+OK\r\n"
PONG = b"+PONG\r\n"
NOTHING = b"$-1\r\n"

_END = b"\r\n"
_LONGEST_LINE = 1 << 16  # bytes; a line holds a length, a number or a short message
_LARGEST = 512 << 20  # bytes; Redis's own limit for a value
_MOST_WORDS = 64  # of one command; caches send five at most


class ProtocolError(ConnectionError):
    """What came is no answer and no command of Redis, or is one of its errors."""


def command(*words: bytes) -> bytes:
    """A command as it goes over the wire."""
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def bulk(value: bytes) -> bytes:
    """A string of bytes as it goes over the wire."""
    return b"$%d\r\n" % len(value) + value + _END


def number(value: int) -> bytes:
    """An integer as it goes over the wire."""
    return b":%d\r\n" % value


def refusal(text: str) -> bytes:
    """An error as it goes over the wire."""
    return b"-ERR " + text.encode() + _END


def read_value(stream: Readable) -> Value:
    """The next answer or command.

    Raises:
        ProtocolError: the other side said that something is wrong, or speaks another protocol.
        EOFError: the connection has ended.
    """
    line = stream.readline(_LONGEST_LINE)
    if not line:
        raise EOFError
    kind, rest = line[:1], line[1:].removesuffix(_END)
    if kind == b"+":
        return rest
    if kind == b"-":
        raise ProtocolError(rest.decode(errors="replace"))
    if kind not in b":$*" or not _is_number(rest):
        raise ProtocolError("the other side doesn't speak Redis's protocol")
    count = int(rest)
    if kind == b":":
        return count
    return _read_bulk(stream, count) if kind == b"$" else _read_list(stream, count)


def _is_number(text: bytes) -> bool:
    return text.removeprefix(b"-").isdigit()


def _read_bulk(stream: Readable, size: int) -> bytes | None:
    if size < 0:
        return None
    if size > _LARGEST:
        raise ProtocolError(f"{size} bytes are more than a value may have")
    content = stream.read(size + len(_END))
    if len(content) < size + len(_END):
        raise EOFError
    return content[:size]


def _read_list(stream: Readable, count: int) -> list[Value]:
    if count > _MOST_WORDS:
        raise ProtocolError(f"{count} words are more than a command has")
    return [read_value(stream) for _ in range(count)]
