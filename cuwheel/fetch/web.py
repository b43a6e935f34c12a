"""How cuwheel speaks to servers: trust, time-outs, new attempts, addresses fit to be shown."""

from __future__ import annotations

import contextlib
import http
import io
import mimetypes
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
import requests.adapters
import truststore
import urllib3
import urllib3.exceptions

from cuwheel.errors import DownloadError
from cuwheel.fetch.retry import RETRY_POLICY, TIMEOUT, Attempts, RetryPolicy
from cuwheel.fetch.sockets import StoppableRetry, bounded_pools
from cuwheel.system.parallel import Stop

_STATUS_RETRIES = 4
_BUSY = (429, 500, 502, 503, 504)  # answers that another attempt may change (RFC 9110, RFC 6585)
_PIECE = 1 << 16  # bytes
_BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError)
_LONGEST_WAIT = 30  # seconds that a server's Retry-After is obeyed


def open_session(url: str, retry_policy: RetryPolicy, stop: Stop | None = None) -> requests.Session:
    """A session for one address; servers that are busy are asked again after a pause.

    Certificates are checked against the system's store, `SSL_CERT_FILE`, and `REQUESTS_CA_BUNDLE`.
    A `file:` address can be opened only when it is asked for directly: no server can redirect
    there.
    """
    # Broken connections are left to `Attempts`, which knows about progress.
    stop = stop or Stop()
    retry = StoppableRetry(
        total=None,
        connect=0,
        read=0,
        other=0,
        status=min(_STATUS_RETRIES, retry_policy.attempts - 1),
        status_forcelist=_BUSY,
        backoff_factor=retry_policy.pause,
        raise_on_status=False,
        retry_after_max=_LONGEST_WAIT,
    )
    retry.stop = stop
    session = requests.Session()
    session.mount("https://", _SystemTrust(retry, stop))
    session.mount("http://", _Bounded(retry, stop))
    if is_local(url):
        session.mount("file://", _Files())
    return session


def read_small(url: str, *, fix: str, retry_policy: RetryPolicy = RETRY_POLICY) -> bytes | None:
    """What stands at an address; None where the server says that nothing does, or not for us.

    Args:
        url: http or https.
        fix: what to do when the server doesn't answer, for the message.
        retry_policy: how long to go on trying.

    Raises:
        DownloadError: the server doesn't answer.
    """
    attempts = Attempts(retry_policy)
    with open_session(url, retry_policy) as session:
        while True:
            try:
                with session.get(url, timeout=attempts.timeout, stream=True) as answer:
                    return _read_in_time(answer, retry_policy.limit) if answer.ok else None
            except _BROKEN as problem:  # noqa: PERF203 - so as to try again
                if is_lasting(problem) or not attempts.may_retry():
                    raise unreachable(url, problem, fix=fix) from problem


def _read_in_time(answer: requests.Response, limit: float) -> bytes:
    """All of an answer, however slowly its pieces come, within so many seconds.

    Raises:
        requests.ReadTimeout: it takes longer.
    """
    end, pieces = time.monotonic() + limit, []
    # `read1` gives what has come, where `read` waits until a piece of some size is full: a server
    # that drips would never fill it.
    while piece := answer.raw.read1(_PIECE, decode_content=True):
        pieces.append(piece)
        if time.monotonic() > end:
            raise requests.ReadTimeout(f"it wasn't read to its end within {limit:.0f} seconds")
    return b"".join(pieces)


def ask_size(url: str, stop: Stop) -> int | None:
    """Bytes of what stands at an address; None where the server doesn't say.

    Args:
        url: http, https or file.
        stop: ends it early.
    """
    try:
        with (
            open_session(url, RETRY_POLICY, stop) as session,
            session.head(url, timeout=TIMEOUT, allow_redirects=True) as answer,
        ):
            length = answer.headers.get("Content-Length", "") if answer.ok else ""
    except requests.RequestException:
        return None  # the download itself will say what is wrong
    return int(length) if length.isdigit() else None


def is_lasting(problem: BaseException) -> bool:
    """Whether another attempt would end like this one: a bad certificate, a malformed address."""
    passing = (requests.ConnectionError, requests.Timeout)
    return isinstance(problem, requests.exceptions.SSLError) or (
        isinstance(problem, requests.RequestException) and not isinstance(problem, passing)
    )


def is_local(url: str) -> bool:
    """Whether an address is of this machine's file system: no network is needed for it."""
    return urlsplit(url).scheme == "file"


def redact_url(url: str) -> str:
    """An address without what may be secret: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def unreachable(url: str, problem: BaseException, *, fix: str) -> DownloadError:
    """The error for an address that gave no whole answer."""
    host = urlsplit(url).hostname or "this machine"
    return DownloadError(
        f"{redact_url(url)} can't be downloaded",
        why=f"{host}: {reason_of(problem).replace(url, redact_url(url))}",
        fix=f"{fix}; behind a proxy set HTTPS_PROXY, with a certificate authority of your own "
        "SSL_CERT_FILE; without internet, docs/how-to/offline.md",
    )


def refused(url: str, status: int, *, fix: str) -> DownloadError:
    """The error for an address that answered with an error status."""
    if is_local(url):
        return DownloadError(
            f"{redact_url(url)} can't be downloaded", why="there is no such file", fix=fix
        )
    with contextlib.suppress(ValueError):
        return DownloadError(
            f"{redact_url(url)} can't be downloaded",
            why=f"the server answered {status} {http.HTTPStatus(status).phrase}",
            fix=fix,
        )
    return DownloadError(
        f"{redact_url(url)} can't be downloaded", why=f"the server answered {status}", fix=fix
    )


def reason_of(problem: BaseException) -> str:
    """The innermost words of a failure: the outer ones name pools and objects, and full URLs."""
    while inner := _inner(problem):
        problem = inner
    text = str(problem) or type(problem).__name__
    return text.rpartition("object at 0x")[2].partition(">: ")[2] or text


def _inner(problem: BaseException) -> BaseException | None:
    candidates = (
        getattr(problem, "reason", None),
        *problem.args[:2],
        problem.__cause__,
        problem.__context__,
    )
    return next((found for found in candidates if isinstance(found, BaseException)), None)


class _Bounded(requests.adapters.HTTPAdapter):
    """Connects within bounds, and can be stopped."""

    def __init__(self, retry: StoppableRetry, stop: Stop) -> None:
        self._stop = stop
        super().__init__(max_retries=retry)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = bounded_pools(self._stop)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        if not proxy.lower().startswith("socks"):  # these have pools of their own
            manager.pool_classes_by_scheme = bounded_pools(self._stop)
        return manager


class _SystemTrust(_Bounded):
    """Checks certificates against the system's store instead of the one that requests brings."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        kwargs["ssl_context"] = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        super().init_poolmanager(*args, **kwargs)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        proxy_kwargs["ssl_context"] = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return super().proxy_manager_for(proxy, **proxy_kwargs)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]
        if verify is True:  # nobody named a bundle, so requests has put its own here
            conn.ca_certs = None


class _Files(requests.adapters.BaseAdapter):
    """Serves `file:` addresses; a folder answers with its `index.html`."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        path = Path(unquote(urlsplit(request.url or "").path))
        path = path / "index.html" if path.is_dir() else path
        response = requests.Response()
        response.request = request
        response.url = request.url or ""
        response.status_code = http.HTTPStatus.OK if path.is_file() else http.HTTPStatus.NOT_FOUND
        content = path.open("rb") if path.is_file() else io.BytesIO()
        response.raw = urllib3.HTTPResponse(content, preload_content=False)
        if path.is_file():
            response.headers["Content-Length"] = str(path.stat().st_size)
        response.headers["Content-Type"] = mimetypes.guess_type(path.name)[0] or ""
        return response

    def close(self) -> None:
        """Nothing is kept open between two requests."""
