"""How a remote compile cache is read and written: by obstore, and by redis-py.

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
from typing import TYPE_CHECKING, Protocol

import redis
from obstore.exceptions import BaseError
from obstore.store import HTTPStore, LocalStore, S3Store
from redis.backoff import NoBackoff
from redis.retry import Retry

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

    from cuwheel.build.compile_cache.remote import RemoteCache


_REDIS_PORT = 6379
_CONNECT = 5.0  # seconds
_LIMIT = 20.0  # seconds for a whole request; for Redis of silence
_ONCE: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(seconds=_LIMIT)}
_UNSENT = "error sending request"  # obstore's line where there was no answer at all
_INNER = re.compile(r"(?:source|error|message): ")


class Storage(Protocol):
    """Values under names; one object serves several threads. Raises OSError where it fails."""

    def get(self, name: str) -> bytes | None:
        """What stands under a name; None for nothing."""

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name."""


def open_storage(remote: RemoteCache) -> Storage:
    """What reads and writes there; nothing is connected before it is asked."""
    is_redis = remote.scheme.startswith("redis")
    return RedisStorage(remote) if is_redis else ObjectStorage(remote)


class ObjectStorage:
    """S3, a web server that takes PUT (nginx with WebDAV, Bazel's remote cache), or a folder."""

    def __init__(self, remote: RemoteCache) -> None:
        self._remote = remote

    @functools.cached_property
    def _store(self) -> ObjectStore:
        return _open_store(self._remote)

    def get(self, name: str) -> bytes | None:
        """What stands under a name; None for nothing."""
        store = self._store
        try:
            return store.get(name).bytes().to_bytes()
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
    if remote.scheme == "file":
        folder = Path(remote.path)
        folder.mkdir(exist_ok=True)  # the folder above has to be there, or it isn't mounted
        return LocalStore(folder)
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=_CONNECT),
        "timeout": timedelta(seconds=_LIMIT),
        "allow_http": (remote.endpoint or f"{remote.scheme}:").startswith("http:"),
    }
    if remote.scheme == "s3":
        return _open_s3(remote, options)
    if remote.secret:
        login = base64.b64encode(f"{remote.user}:{remote.secret}".encode()).decode()
        options["default_headers"] = {"Authorization": f"Basic {login}"}
    url = f"{remote.scheme}://{remote.netloc}{remote.path}"
    store: HTTPStore = HTTPStore.from_url(url, client_options=options, retry_config=_ONCE)
    return store


def _open_s3(remote: RemoteCache, options: ClientConfig) -> S3Store:
    config: S3Config = {
        "region": remote.region,
        "access_key_id": remote.user,
        "secret_access_key": remote.secret,
    }
    if remote.token:
        config["session_token"] = remote.token
    if remote.endpoint:
        config["endpoint"] = remote.endpoint
    prefix = remote.path.strip("/")
    return S3Store(
        remote.host, prefix=prefix, config=config, client_options=options, retry_config=_ONCE
    )


def _reason(problem: Exception) -> str:
    """What went wrong, out of obstore's words: a line, and what Rust's libraries say, nested."""
    line, _, nested = str(problem).partition("\n")
    said = line.rpartition(" - ")[2].partition(": <")[0].rstrip(" :")  # a page or XML may follow
    if not said.endswith(_UNSENT):
        return said
    innermost = _INNER.split(" ".join(nested.split()))[-1]
    return innermost.strip(' "(){},')


class RedisStorage:
    """A Redis server, or what speaks like one (Valkey, KeyDB, Dragonfly)."""

    def __init__(self, remote: RemoteCache) -> None:
        client = functools.partial(
            redis.Redis,
            db=remote.database,
            username=remote.user or None,
            password=remote.secret or None,
            socket_timeout=_LIMIT,
            socket_connect_timeout=_CONNECT,
            retry=Retry(NoBackoff(), 1),  # for a server that was restarted
            protocol=2,  # with the third, a missing password is reported in unclear words
        )
        if remote.scheme == "redis+unix":
            self._client = client(unix_socket_path=remote.path)
        else:
            is_tls = remote.scheme == "rediss"
            self._client = client(host=remote.host, port=remote.port or _REDIS_PORT, ssl=is_tls)

    def get(self, name: str) -> bytes | None:
        """What stands under a name; None for nothing."""
        try:
            found = self._client.get(_redis_key(name))
        except redis.RedisError as problem:
            raise OSError(str(problem)) from problem
        return found if isinstance(found, bytes) else None

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name; how long it stays is the server's affair."""
        try:
            self._client.set(_redis_key(name), value)
        except redis.RedisError as problem:
            raise OSError(str(problem)) from problem


def _redis_key(name: str) -> str:
    """Apart from what others keep in the same database."""
    return f"cuwheel:{name}"
