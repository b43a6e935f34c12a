"""The one way from a build to a remote cache: a Unix socket that speaks Redis's protocol.

ccache and sccache both speak that, whatever the remote cache itself is, so a build needs no
network, no TLS and no password. The relay runs in the engine's own process and ends with it. It
knows two things to do, get and put, in one storage. docs/adr/0016.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import socketserver
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuwheel.build.compile_cache.resp import (
    NOTHING,
    OK,
    PONG,
    error_reply,
    number_reply,
    read_command,
    value_reply,
)
from cuwheel.sandbox.unix_server import serve_unix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase
    from pathlib import Path

    from cuwheel.build.compile_cache.remote import RemoteCache
    from cuwheel.build.compile_cache.storage import Storage


_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")
_MAX_FAILURES = 3  # failures in a row after which the remote cache is left alone
_PROBE = "cuwheel-probe"  # a name under which nothing stands
_TRIAL = ".sccache_check"  # what sccache reads and writes at its start, to see whether it can
# Of a talk with one server; there is nothing to choose here.
_LOCAL = frozenset((b"AUTH", b"CLIENT", b"SELECT"))


@dataclass(kw_only=True)
class Traffic:
    """What went through a relay.

    Attributes:
        hits: values that the remote cache had.
        misses: values that it hadn't.
        failures: requests that it didn't answer.
        is_off: whether it was left alone in the end.
    """

    hits: int = 0
    misses: int = 0
    failures: int = 0
    is_off: bool = False


@contextlib.contextmanager
def serve_relay(
    remote: RemoteCache, storage: Storage, path: Path, package: str, warn: Callable[[str], None]
) -> Iterator[Traffic]:
    """Serve a build's compile cache until the block ends.

    A remote cache that doesn't answer costs one warning, and the build nothing but its hits.

    Args:
        remote: where the storage is, for the warning.
        storage: what is read and written.
        path: of the socket; what stands there is replaced.
        package: whose values are read and written: it reaches no other's.
        warn: called, at most once, when the remote cache doesn't work.
    """
    relay = _Relay(remote, storage, _prefix_of(package), warn)
    relay.probe()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(EOFError, ConnectionError):
                while True:
                    self.wfile.write(relay.answer(self.rfile))

    with serve_unix(path, Handler):
        yield relay.traffic


@dataclass
class _Relay:
    remote: RemoteCache
    storage: Storage
    prefix: str
    warn: Callable[[str], None]
    traffic: Traffic = field(default_factory=Traffic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failures_in_a_row: int = 0

    def probe(self) -> None:
        """Find out before the build whether anyone answers, so that no compile waits for it."""
        self._ask(lambda: self.storage.get(_PROBE), enough=1)

    def answer(self, stream: BufferedIOBase) -> bytes:
        """Read one command and do it.

        Raises:
            EOFError: the other side has ended.
            ConnectionError: it speaks another protocol.
        """
        verb, *arguments = read_command(stream) or [b""]
        verb = verb.upper()
        if verb == b"PING":
            return PONG
        return OK if verb in _LOCAL else self._stored(verb, arguments)

    def _stored(self, verb: bytes, arguments: list[bytes]) -> bytes:
        """Answer what is about a value."""
        name = arguments[0].decode(errors="replace") if arguments else ""
        if not _NAME.fullmatch(name):
            return error_reply("this relay only accepts names of plain letters")
        if name == _TRIAL:
            return NOTHING if verb == b"GET" else OK
        if verb == b"SET" and len(arguments) > 1:
            return self._put(self.prefix + _flat(name), arguments[1])
        if verb in {b"GET", b"EXISTS"}:
            return self._get(self.prefix + _flat(name), only_asked=verb == b"EXISTS")
        return error_reply("this relay only supports GET, SET and EXISTS")

    def _get(self, name: str, *, only_asked: bool) -> bytes:
        found = self._ask(lambda: self.storage.get(name))
        with self._lock:
            self.traffic.hits += found is not None
            self.traffic.misses += found is None
        if only_asked:
            return number_reply(int(found is not None))
        return NOTHING if found is None else value_reply(found)

    def _put(self, name: str, value: bytes) -> bytes:
        self._ask(lambda: self.storage.put(name, value))
        return OK  # also where it failed: the cache tools can do nothing about it

    def _ask(
        self, request: Callable[[], bytes | None], enough: int = _MAX_FAILURES
    ) -> bytes | None:
        """Do a request to the storage; None where that is off or fails."""
        if self.traffic.is_off:
            return None
        try:
            answer = request()
        except OSError as problem:
            self._failed(problem, enough)
            return None
        with self._lock:
            self._failures_in_a_row = 0
        return answer

    def _failed(self, problem: OSError, enough: int) -> None:
        with self._lock:
            self.traffic.failures += 1
            self._failures_in_a_row += 1
            if self._failures_in_a_row < enough or self.traffic.is_off:
                return
            self.traffic.is_off = True
        why = self.remote.without_secrets(str(problem))
        self.warn(
            f"the remote compile cache {self.remote.redacted_url} doesn't work, so this build "
            f"continues without it: {why}"
        )


def _prefix_of(package: str) -> str:
    """What stands before the names of a package's values: of one length, so none begins another."""
    return f"{hashlib.sha256(package.encode()).hexdigest()[:16]}-"


def _flat(name: str) -> str:
    """A name that is one in every storage: not a path, and none that starts with a dot."""
    return re.sub(r"[:/]", "-", name).lstrip(".-")
