"""Storages of a remote compile cache, by obstore and by redis-py.

All of this runs in the engine, outside the sandbox: passwords, keys and TLS stay here. A build
reaches it through the relay alone. Both libraries are imported here only, when there is a remote
cache. docs/adr/0016.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote

import redis
from obstore.exceptions import BaseError
from obstore.store import HTTPStore, LocalStore, S3Store
from redis._parsers import _RESP2Parser
from redis._parsers.socket import SocketBuffer
from redis.backoff import NoBackoff
from redis.retry import Retry

from cuwheel.base.system.quantities import show_size
from cuwheel.build.compile.cache.remote import RemoteCache

if TYPE_CHECKING:  # the others are names in its stub alone
    import socket

    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

_LARGEST = 512 << 20  # bytes; Redis's own limit for a value
_LONGEST_LINE = 1 << 16  # bytes of an answer that is no value: an error
_REDIS_PORT = 6379
_CONNECT = 5.0  # seconds
_LIMIT = 20.0  # seconds for a whole request; for Redis of silence
_ONCE: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(seconds=_LIMIT)}
_DATABASE = re.compile(r"(?:^/|[?&]db=)(\d+)(?=[?&]|$)")
_UNSENT = "error sending request"  # obstore's line where there was no answer at all
_INNER = re.compile(r"(?:source|error|message): ")


class OversizedEntryError(OSError):
    """A value is larger than any that a compile cache makes."""


class Storage(Protocol):
    """Values under names; one object serves several threads. Raises OSError where it fails."""

    def get(self, name: str) -> bytes | None:
        """Return the value of a name; None for none."""

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name."""


def open_storage(remote: RemoteCache) -> Storage:
    """Return the storage of a remote cache; it connects at the first request."""
    is_redis = remote.url.scheme.startswith("redis")
    return RedisStorage(remote) if is_redis else ObjectStorage(remote)


class ObjectStorage:
    """S3, a web server that takes PUT (nginx with WebDAV, Bazel's remote cache), or a folder."""

    def __init__(self, remote: RemoteCache) -> None:
        self._remote = remote

    @functools.cached_property
    def _store(self) -> ObjectStore:
        return _open_store(self._remote)

    def get(self, name: str) -> bytes | None:
        """Return the value of a name; None for none."""
        store = self._store
        try:
            answer = store.get(name)
            _check_size(answer.meta["size"])
            content = bytearray()
            for piece in answer.stream():  # chunks of HTTP may be more than was stated
                content += piece
                _check_size(len(content))
            return bytes(content)
        except FileNotFoundError:
            return None
        except BaseError as problem:
            raise OSError(_reason(problem)) from problem

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name: readers see all of it or nothing."""
        try:
            self._store.put(name, value, use_multipart=False)
        except (BaseError, FileNotFoundError) as problem:  # a bucket, or folder, that isn't there
            raise OSError(_reason(problem)) from problem


def _check_size(size: int) -> None:
    if size > _LARGEST:
        raise OversizedEntryError(f"it has {show_size(size)}")


def _open_store(remote: RemoteCache) -> ObjectStore:
    url, s3 = remote.url, remote.s3
    if url.scheme == "file":
        folder = Path(unquote(url.path))
        folder.mkdir(exist_ok=True)  # the folder above has to be there, or it isn't mounted
        return LocalStore(folder)
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=_CONNECT),
        "timeout": timedelta(seconds=_LIMIT),
        "allow_http": s3.get("endpoint", f"{url.scheme}:").startswith("http:"),
    }
    if url.scheme == "s3":
        return S3Store(
            url.netloc,
            prefix=unquote(url.path).strip("/"),
            config=cast("S3Config", s3),
            client_options=options,
            retry_config=_ONCE,
        )
    if url.password:
        login = f"{unquote(url.username or '')}:{unquote(url.password)}"
        encoded = base64.b64encode(login.encode()).decode()
        options["default_headers"] = {"Authorization": f"Basic {encoded}"}
    plain = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    store: HTTPStore = HTTPStore.from_url(plain, client_options=options, retry_config=_ONCE)
    return store


def _reason(problem: Exception) -> str:
    """Return the reason of a failure from obstore's output: a line, and nested errors of Rust's."""
    line, _, nested = str(problem).partition("\n")
    reason = line.rpartition(" - ")[2].partition(": <")[0].rstrip(" :")  # a page or XML may follow
    if not reason.endswith(_UNSENT):
        return reason
    innermost = _INNER.split(" ".join(nested.split()))[-1]
    return innermost.strip(' "(){},')


class RedisStorage:
    """A Redis server, or what speaks like one (Valkey, KeyDB, Dragonfly)."""

    def __init__(self, remote: RemoteCache) -> None:
        url = remote.url
        database = _DATABASE.search(f"{url.path if url.hostname else ''}?{url.query}")
        client = functools.partial(
            redis.Redis,
            db=int(database[1]) if database else 0,
            username=unquote(url.username or "") or None,
            password=unquote(url.password or "") or None,
            socket_timeout=_LIMIT,
            socket_connect_timeout=_CONNECT,
            retry=Retry(NoBackoff(), 1),  # for a server that was restarted
            protocol=2,  # with the third, a missing password is reported in unclear words
        )
        if url.hostname is None:
            self._client = client(unix_socket_path=unquote(url.path))
        else:
            port, is_tls = url.port or _REDIS_PORT, url.scheme == "rediss"
            self._client = client(host=url.hostname, port=port, ssl=is_tls)
        self._client.connection_pool.connection_kwargs["parser_class"] = _BoundedParser

    def get(self, name: str) -> bytes | None:
        """Return the value of a name; None for none."""
        with _failing_as_os_error():
            value = self._client.get(_redis_key(name))
        return value if isinstance(value, bytes) else None

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name; the server decides how long it stays."""
        with _failing_as_os_error():
            self._client.set(_redis_key(name), value)


@contextlib.contextmanager
def _failing_as_os_error() -> Iterator[None]:
    """Turn each failure of redis-py into OSError: it checks little of what a server answers."""
    try:
        yield
    except _OversizedValueError as problem:
        raise OversizedEntryError(str(problem)) from problem
    except redis.RedisError as problem:
        raise OSError(str(problem)) from problem
    except Exception as problem:
        raise OSError(f"its answer can't be read: {problem}") from problem


class _OversizedValueError(redis.InvalidResponse):
    """A value is larger than the limit; redis-py sends no second request after it."""


class _BoundedParser(_RESP2Parser):
    """The parser of answers, which are a line or one value of limited size each."""

    def on_connect(self, connection: Any) -> None:
        """Take the socket of a connection that has been made."""
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        taken = cast("socket.socket", self._sock)
        read_size, timeout = self.socket_read_size, connection.socket_timeout
        self._buffer = _BoundedBuffer(taken, read_size, timeout)


class _BoundedBuffer(SocketBuffer):
    def read(self, length: int, *arguments: Any, **options: Any) -> bytes:
        if length > _LARGEST:
            raise _OversizedValueError(f"it has {show_size(length)}")
        if length < 0:
            raise redis.InvalidResponse("a value of negative size")
        return super().read(length, *arguments, **options)

    def readline(self, *arguments: Any, **options: Any) -> bytes:
        """Read a line; raise InvalidResponse for an array, which no request here returns."""
        while True:
            start = self._buffer.tell()
            line = self._buffer.readline(_LONGEST_LINE)
            if line.endswith(b"\r\n"):
                break
            if len(line) >= _LONGEST_LINE:
                raise redis.InvalidResponse("an endless line")
            self._buffer.seek(start)
            self._read_from_socket(*arguments, **options)
        if line.startswith(b"*"):
            raise redis.InvalidResponse("an array in place of a value")
        return line[:-2]


def _redis_key(name: str) -> str:
    """Return the key of a name, with a prefix that separates it from others in the database."""
    return f"cuwheel:{name}"
