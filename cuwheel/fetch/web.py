"""How cuwheel speaks to servers: trust, time-outs, new attempts, and what is said of failures."""

from __future__ import annotations

import http
import ssl
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
import requests.adapters
import truststore
import urllib3

from cuwheel.errors import DownloadError
from cuwheel.fetch.slow import SLOW_FIX
from cuwheel.fetch.urls import is_local, local_path, redact_text, redact_url
from cuwheel.system.parallel import run_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.fetch.retry import Attempts

_BUSY = (429, 500, 502, 503, 504)  # answers that another attempt may change (RFC 9110, RFC 6585)
_GONE = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.GONE)
_TIMEOUTS = (requests.Timeout, urllib3.exceptions.TimeoutError)
_RETRY_AFTER = urllib3.Retry()  # reads what a server asks for; `Attempts` bounds it


def open_session(attempts: Attempts) -> requests.Session:
    """A session whose requests are tried again as long as these attempts last.

    Certificates are checked against the system's store, `SSL_CERT_FILE`, and `REQUESTS_CA_BUNDLE`.
    No server can redirect to a file of this machine: only http and https are known.
    """
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(attempts))
    return session


class _Adapter(requests.adapters.HTTPAdapter):
    """Sends each request until it is answered, or there are no attempts left."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._trust = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        super().__init__()

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        del kwargs["timeout"]
        ask = partial(super().send, request, *args, **kwargs)
        while True:
            try:
                answer = self._ask_in_time(ask)
            except requests.RequestException as problem:  # noqa: PERF203 - so as to try again
                if is_lasting(problem) or not self._attempts.may_retry():
                    raise
            else:
                if answer.is_redirect:  # requests would read its content, however long it is
                    answer.close()
                    answer.raw = urllib3.HTTPResponse(BytesIO(), preload_content=False)
                asked = _asked_wait(answer)
                if answer.status_code not in _BUSY or not self._attempts.may_retry(asked):
                    return answer
                answer.close()

    def _ask_in_time(self, ask: Callable[..., requests.Response]) -> requests.Response:
        """Bound all of it: the time-outs count anew for each address, and the lookup has none."""
        attempts = self._attempts
        try:
            ask = partial(ask, timeout=attempts.timeout)
            return run_within(attempts.left, ask, attempts.stop)
        except TimeoutError:
            words = f"no answer within {attempts.retry_policy.limit:.0f} seconds"
            raise requests.Timeout(TimeoutError(words)) from None

    def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
        host, tls = super().build_connection_pool_key_attributes(*args, **kwargs)
        return host, {**tls, "ssl_context": self._trust}

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]
        if verify is True:  # nobody named a bundle, so requests has put its own here
            conn.ca_certs = None


@dataclass(frozen=True, kw_only=True)
class Head:
    """What is known of an address before anything of it is read.

    Attributes:
        is_there: whether something stands there.
        size: bytes; None where the server doesn't say.
    """

    is_there: bool
    size: int | None = None


def ask_head(url: str, attempts: Attempts, *, fix: str) -> Head:
    """Ask what stands at an address.

    Args:
        url: http, https or file.
        attempts: at asking a server.
        fix: what to do when it can't be asked, for the message.

    Raises:
        DownloadError: a server doesn't answer, or refuses to.
    """
    if is_local(url):
        path = local_path(url)
        return Head(is_there=path.is_file(), size=path.stat().st_size if path.is_file() else None)
    headers = {"Accept-Encoding": "identity"}  # else the size is that of a compressed transfer
    try:
        with (
            open_session(attempts) as session,
            session.head(url, headers=headers, allow_redirects=True) as answer,
        ):
            if answer.ok or answer.status_code in _GONE:
                size = answer.headers.get("Content-Length", "")
                return Head(is_there=answer.ok, size=int(size) if size.isdigit() else None)
            raise refused(url, answer, fix=fix)
    except requests.RequestException as problem:
        raise unreachable(url, problem, fix=fix) from problem


def is_lasting(problem: BaseException) -> bool:
    """Whether another attempt would end like this one: a bad certificate, a malformed address."""
    passing = (requests.ConnectionError, requests.Timeout)
    return isinstance(problem, requests.exceptions.SSLError) or (
        isinstance(problem, requests.RequestException) and not isinstance(problem, passing)
    )


def unreachable(url: str, problem: BaseException, *, fix: str) -> DownloadError:
    """The error for an address that gave no whole answer."""
    host = urlsplit(url).hostname or "this machine"
    slow = f"; {SLOW_FIX}" if isinstance(problem, _TIMEOUTS) else ""
    return DownloadError(
        f"{redact_url(url)} could not be downloaded",
        why=f"{host}: {redact_text(reason_of(problem).replace(url, redact_url(url)))}",
        fix=f"{fix}{slow}; behind a proxy set HTTPS_PROXY, for your own certificate authority "
        "SSL_CERT_FILE; without internet see docs/how-to/offline.md",
    )


def refused(url: str, answer: requests.Response, *, fix: str) -> DownloadError:
    """The error for an address that answered with an error status."""
    status = answer.status_code
    phrase = next((f" {known.phrase}" for known in http.HTTPStatus if known == status), "")
    asked = _asked_wait(answer)
    wait = f" and asked to retry after {asked:.0f} seconds" if asked else ""
    error = DownloadError(
        f"{redact_url(url)} could not be downloaded",
        why=f"the server answered {status}{phrase}{wait}",
        fix=fix,
    )
    error.is_missing = status in _GONE
    return error


def _asked_wait(answer: requests.Response) -> float:
    """Seconds that a server asked to wait (RFC 9110, section 10.2.3); 0: nothing."""
    try:
        return _RETRY_AFTER.parse_retry_after(answer.headers.get("Retry-After", "0"))
    except (urllib3.exceptions.InvalidHeader, OverflowError):
        return 0.0


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
