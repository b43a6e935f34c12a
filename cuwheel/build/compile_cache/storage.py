"""How a remote compile cache is read and written.

All of this runs in the engine, outside the sandbox: passwords, keys and TLS stay here. A build
reaches it through `cacherelay` alone. Every storage raises OSError where it doesn't work.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import ssl
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, unquote, urlsplit

import truststore

from cuwheel.build.compile_cache.resp import command, read_value
from cuwheel.fetch.retry import Attempts, RetryPolicy
from cuwheel.fetch.web import open_session
from cuwheel.system.files import new_file

if TYPE_CHECKING:
    from io import BufferedRWPair

    import requests

    from cuwheel.build.compile_cache.remote import Remote
    from cuwheel.build.compile_cache.resp import Value


_PORT = 6379  # Redis's own
_TIMEOUT = 10.0  # seconds for one step of a talk; a compile is cheaper than a longer wait
_ONCE = RetryPolicy(attempts=1, connect=_TIMEOUT, answer=_TIMEOUT, limit=_TIMEOUT)
_MISSING = 404
_DONE = range(200, 300)
_SIGNED = "host;x-amz-content-sha256;x-amz-date"


class Storage(Protocol):
    """Values under names; one object serves several threads."""

    def get(self, name: str) -> bytes | None:
        """What stands under a name; None for nothing."""

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name."""

    def leave(self) -> None:
        """Close what is open for this thread."""


def open_storage(remote: Remote) -> Storage:
    """What reads and writes there; nothing is connected before it is asked."""
    if remote.scheme == "file":
        return FileStorage(Path(remote.path))
    if remote.scheme.startswith("redis"):
        return RedisStorage(remote)
    return HttpStorage(remote)


class FileStorage:
    """A folder, such as one on a network file system; it never gets smaller by itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        """What stands under a name; None for nothing."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            # Nothing has been stored yet; the folder above has to be there, or it isn't mounted.
            if self._folder.parent.is_dir():
                return None
            raise

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name: readers see all of it or nothing."""
        self._folder.mkdir(exist_ok=True)
        # Not `write_atomically`: to list a folder of many files each time would take long.
        with new_file(self._folder / name) as stream:
            stream.write(value)

    def leave(self) -> None:
        """Nothing is open between two calls."""


class RedisStorage:
    """A Redis server, or what speaks like one (Valkey, KeyDB, Dragonfly)."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._own = threading.local()

    def get(self, name: str) -> bytes | None:
        """What stands under a name; None for nothing."""
        found = self._ask(b"GET", _redis_key(name))
        return found if isinstance(found, bytes) else None

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name; how long it stays is the server's affair."""
        self._ask(b"SET", _redis_key(name), value)

    def leave(self) -> None:
        """Close this thread's connection."""
        stream = getattr(self._own, "stream", None)
        self._own.stream = None
        if stream:
            with contextlib.suppress(OSError):
                stream.close()

    def _ask(self, *words: bytes) -> Value:
        try:
            stream = getattr(self._own, "stream", None) or self._connect()
            return _talk(stream, *words)
        except EOFError as problem:
            self._own.stream = None
            raise ConnectionResetError("the server ended the connection") from problem
        except OSError:
            self._own.stream = None
            raise

    def _connect(self) -> BufferedRWPair:
        remote = self._remote
        connection = _connected(remote)
        stream = connection.makefile("rwb")
        connection.close()  # the stream keeps it open, and closes it with itself
        if remote.secret:
            names = (remote.user, remote.secret) if remote.user else (remote.secret,)
            _talk(stream, b"AUTH", *(word.encode() for word in names))
        if remote.database:
            _talk(stream, b"SELECT", b"%d" % remote.database)
        self._own.stream = stream
        return stream


def _connected(remote: Remote) -> socket.socket:
    if remote.scheme == "redis+unix":
        with contextlib.ExitStack() as undo:
            connection = undo.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(_TIMEOUT)
            connection.connect(remote.path)
            undo.pop_all()
        return connection
    connection = socket.create_connection((remote.host, remote.port or _PORT), _TIMEOUT)
    if remote.scheme == "redis":
        return connection
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return context.wrap_socket(connection, server_hostname=remote.host)


def _talk(stream: BufferedRWPair, *words: bytes) -> Value:
    stream.write(command(*words))
    stream.flush()
    return read_value(stream)


def _redis_key(name: str) -> bytes:
    """Apart from what others keep in the same database."""
    return f"cuwheel:{name}".encode()


class HttpStorage:
    """A web server that takes PUT, such as nginx with WebDAV or Bazel's remote cache; or S3."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._base = _base_url(remote)
        self._own = threading.local()

    def get(self, name: str) -> bytes | None:
        """What stands under a name; None for nothing."""
        return self._ask("GET", name, b"")

    def put(self, name: str, value: bytes) -> None:
        """Put a value under a name."""
        self._ask("PUT", name, value)

    def leave(self) -> None:
        """Close this thread's connections."""
        if hasattr(self._own, "session"):
            self._own.session.close()
            del self._own.session

    def _ask(self, method: str, name: str, value: bytes) -> bytes | None:
        if not hasattr(self._own, "session"):
            self._own.attempts = Attempts(_ONCE)
            self._own.session = open_session(self._own.attempts)
        self._own.attempts.progressed()
        remote, url = self._remote, f"{self._base}/{name}"
        is_s3 = remote.scheme == "s3"
        with self._own.session.request(
            method,
            url,
            data=value or None,
            headers=s3_headers(remote, method, url, value, datetime.now(timezone.utc))
            if is_s3
            else {},
            auth=(remote.user, remote.secret) if remote.secret and not is_s3 else _unchanged,
            allow_redirects=False,  # a password is for one server
        ) as answer:
            if answer.status_code in _DONE:  # `ok` would be true of a redirection as well
                return bytes(answer.content)
            if method == "GET" and answer.status_code == _MISSING:
                return None
            raise ConnectionError(f"the server answered {method} with {answer.status_code}")


def _unchanged(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Instead of requests' own way, which puts what ~/.netrc says in the signature's place."""
    return request


def _base_url(remote: Remote) -> str:
    path = remote.path.rstrip("/")
    if remote.scheme != "s3":
        return f"{remote.scheme}://{remote.place}{path}"
    if remote.endpoint:
        return f"{remote.endpoint.rstrip('/')}/{remote.host}{path}"
    service = f"s3.{remote.region}.amazonaws.com"
    # A certificate's `*` stands for no dot (RFC 6125, 6.4.3), which a bucket's name may have.
    if "." in remote.host:
        return f"https://{service}/{remote.host}{path}"
    return f"https://{remote.host}.{service}{path}"


def s3_headers(
    remote: Remote, method: str, url: str, value: bytes, now: datetime
) -> dict[str, str]:
    """The headers that sign a request for S3, version 4, in one chunk: Amazon S3 API reference,
    "Signature calculations for the Authorization header".

    Args:
        remote: whose keys sign.
        method: GET or PUT.
        url: without a query.
        value: the body.
        now: the time, in UTC.
    """  # noqa: D205 - one sentence
    parts, stamp = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(value).hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    signed = _SIGNED
    if remote.token:
        headers["x-amz-security-token"] = remote.token
        signed += ";x-amz-security-token"
    lines = [f"{name}:{headers[name]}" for name in signed.split(";")]
    path = quote(unquote(parts.path), safe="/-_.~")
    request = "\n".join([method, path, "", *lines, "", signed, digest])
    scope = f"{stamp[:8]}/{remote.region}/s3/aws4_request"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashed}"
    key = f"AWS4{remote.secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"Credential={remote.user}/{scope}"
    own = f"{credential},SignedHeaders={signed},Signature={signature}"
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {own}"}
