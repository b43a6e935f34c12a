"""Storages of a remote compile cache, by obstore and by redis-py.

All of this runs in the engine, outside the sandbox: passwords, keys and TLS stay here. A build
reaches it through the relay alone. Both libraries are imported here only, when there is a remote
cache. docs/adr/0016.
"""

from __future__ import annotations

import base64
import functools
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import unquote

import redis
from obstore.exceptions import BaseError
from obstore.store import HTTPStore, LocalStore, S3Store
from redis.backoff import NoBackoff
from redis.retry import Retry

from cuwheel.base.system.quantities import show_size
from cuwheel.build.compile.cache.remote import RemoteCache

if TYPE_CHECKING:  # they are names in its stub alone
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

_LARGEST = 512 << 20  # bytes; Redis's own limit for a value
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
            if answer.meta["size"] > _LARGEST:
                raise OversizedEntryError(f"it has {show_size(answer.meta['size'])}")
            return answer.bytes().to_bytes()
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

    def get(self, name: str) -> bytes | None:
        """Return the value of a name; None for none."""
        try:
            value = self._client.get(_redis_key(name))
        except redis.RedisError as problem:
            raise OSError(str(problem)) from problem
        return value if isinstance(value, bytes) else None

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name; the server decides how long it stays."""
        try:
            self._client.set(_redis_key(name), value)
        except redis.RedisError as problem:
            raise OSError(str(problem)) from problem


def _redis_key(name: str) -> str:
    """Return the key of a name, with a prefix that separates it from others in the database."""
    return f"cuwheel:{name}"
