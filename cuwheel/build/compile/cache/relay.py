"""The relay between a build and a remote cache: a Unix socket that speaks Redis's protocol.

ccache and sccache both speak that, for every kind of remote cache, so a build needs no network, no
TLS and no password. The relay runs in the engine's own process and ends with it. It supports two
requests, get and put, in one storage; its input comes from a package's build, so it has limits.
docs/adr/0016. The protocol: "Redis serialization protocol specification" (RESP2).
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path

from cuwheel.build.compile.cache.remote import RemoteCache
from cuwheel.build.compile.cache.storage import Storage
from cuwheel.build.sandbox.unix_server import serve_unix

_OK, _PONG, _NOTHING = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
_END = b"\r\n"
_LONGEST_LINE = 32  # bytes; a line holds the kind and a number
_LARGEST = 512 << 20  # bytes; Redis's own limit for a value
_MAX_WORDS = 64  # of one command; caches send five at most

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")
_MAX_FAILURES = 3  # failures in a row after which the remote cache is left alone
_PROBE = "cuwheel-probe"  # a name without a value
_TRIAL = ".sccache_check"  # sccache reads and writes it at its start, as a test
_LOCAL = frozenset((b"AUTH", b"CLIENT", b"SELECT"))  # without effect here


@contextlib.contextmanager
def serve_relay(
    remote: RemoteCache, storage: Storage, path: Path, package: str, warn: Callable[[str], None]
) -> Iterator[Relay]:
    """Serve a build's compile cache until the block ends.

    A remote cache that doesn't answer costs one warning, and the build nothing but its hits.
    """
    # Of one length, so that no package's prefix begins another's.
    prefix = f"{hashlib.sha256(package.encode()).hexdigest()[:16]}-"
    relay = Relay(remote, storage, prefix, warn)
    # Before the build, so that no compile waits for a server that doesn't answer.
    relay.request(lambda: storage.get(_PROBE), enough=1)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(EOFError, ConnectionError):
                while True:
                    self.wfile.write(relay.answer(self.rfile))

    with serve_unix(path, Handler):
        yield relay


@dataclass
class Relay:
    """The relay of one build.

    Attributes:
        prefix: of its names in the storage.
        requests: how many were sent there; of them `hits` found a value.
        is_off: True once the remote cache is left alone.
    """

    remote: RemoteCache
    storage: Storage
    prefix: str
    warn: Callable[[str], None]
    requests: int = 0
    hits: int = 0
    is_off: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failures_in_a_row: int = 0

    def answer(self, stream: BufferedIOBase) -> bytes:
        """Read one command and return the reply.

        Raises:
            EOFError: the connection has ended.
            ConnectionError: this is another protocol.
        """
        verb, *arguments = read_command(stream) or [b""]
        verb = verb.upper()
        if verb == b"PING":
            return _PONG
        return _OK if verb in _LOCAL else self._stored(verb, arguments)

    def _stored(self, verb: bytes, arguments: list[bytes]) -> bytes:
        """Return the reply to a command about a value."""
        name = arguments[0].decode(errors="replace") if arguments else ""
        if not _NAME.fullmatch(name):
            return _error("this relay only accepts names of plain letters")
        if name == _TRIAL:
            return _NOTHING if verb == b"GET" else _OK
        if verb == b"SET" and len(arguments) > 1:
            self.request(lambda: self.storage.put(self.prefix + _flat(name), arguments[1]))
            return _OK  # also where it failed: the cache tools can do nothing about it
        if verb not in {b"GET", b"EXISTS"}:
            return _error("this relay only supports GET, SET and EXISTS")
        value = self.request(lambda: self.storage.get(self.prefix + _flat(name)))
        with self._lock:
            self.hits += value is not None
        if verb == b"EXISTS":
            return b":%d\r\n" % (value is not None)
        return _NOTHING if value is None else b"$%d\r\n" % len(value) + value + _END

    def request(
        self, send: Callable[[], bytes | None], enough: int = _MAX_FAILURES
    ) -> bytes | None:
        """Send a request to the storage; return None where that is off or fails."""
        if self.is_off:
            return None
        try:
            value = send()
        except OSError as problem:
            self._failed(problem, enough)
            return None
        with self._lock:
            self.requests += 1
            self._failures_in_a_row = 0
        return value

    def _failed(self, problem: OSError, enough: int) -> None:
        with self._lock:
            self._failures_in_a_row += 1
            if self._failures_in_a_row < enough or self.is_off:
                return
            self.is_off = True
        why = self.remote.without_secrets(str(problem))
        self.warn(
            f"the remote compile cache {self.remote.redacted_url} doesn't work, so this build "
            f"continues without it: {why}"
        )


def _flat(name: str) -> str:
    """Return a name that is valid in every storage: not a path, and none that starts with a dot."""
    return re.sub(r"[:/]", "-", name).lstrip(".-")


class ProtocolError(ConnectionError):
    """Input that is no command of Redis."""


def read_command(stream: BufferedIOBase) -> list[bytes]:
    """Return the words of the next command; raise EOFError at the end of the connection."""
    words = []
    for _ in range(_read_number(stream, b"*", _MAX_WORDS)):
        size = _read_number(stream, b"$", _LARGEST)
        word = stream.read(size + len(_END))
        if len(word) < size + len(_END):
            raise EOFError
        words.append(word[:size])
    return words


def _read_number(stream: BufferedIOBase, kind: bytes, most: int) -> int:
    line = stream.readline(_LONGEST_LINE)
    if not line:
        raise EOFError
    digits = line[1:].removesuffix(_END)
    if line[:1] != kind or not digits.isdigit() or int(digits) > most:
        raise ProtocolError("this is not a command of a compile cache")
    return int(digits)


def _error(text: str) -> bytes:
    return b"-ERR " + text.encode() + _END
