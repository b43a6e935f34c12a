"""HTTP sessions: certificates, time-outs, retries, and errors of failed requests."""

from __future__ import annotations

import http
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import requests.adapters
import truststore
import urllib3

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.retry import SLOW_FIX, Attempts
from cuwheel.base.fetch.urls import is_local, local_path, redact_text, redact_url, split_url
from cuwheel.base.system.parallel import run_within

_BUSY = (429, 500, 502, 503, 504)  # worth another attempt (RFC 9110, RFC 6585)
_GONE = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.GONE)
_TIMEOUTS = (requests.Timeout, urllib3.exceptions.TimeoutError)
_CLOCK = "compare this machine's clock (`date`) with the certificate's dates; where the clock is "
_CERTIFICATES = {  # fixes by part of OpenSSL's message
    "has expired": f"{_CLOCK}right, the server's owner has to renew it",
    "not yet valid": f"{_CLOCK}right, the server's owner has to replace it",
    "mismatch": "another server answers there: check the address, and what is in between (a proxy, "
    "a page to log in)",
}
_UNKNOWN_AUTHORITY = (
    "if your own certificate authority signed it, SSL_CERT_FILE=FILE names its certificate; "
    "otherwise don't trust that server"
)
_NO_TLS = (
    "what answers there doesn't speak TLS: correct the port, or the scheme (`http://` where you "
    "trust the network)"
)
_RETRY_AFTER = urllib3.Retry()  # parses the header; `Attempts` bounds the wait


def open_session(attempts: Attempts) -> requests.Session:
    """Return a session that retries requests within the limits of these attempts.

    Certificates are checked against the system's store, `SSL_CERT_FILE`, and `REQUESTS_CA_BUNDLE`.
    No server can redirect to a file of this machine: only http and https are known; and none from
    https down to http.
    """
    session = _Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(attempts))
    return session


class _Session(requests.Session):
    """Session that follows no redirect from https down to http."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        is_safe = urlsplit(resp.url).scheme == "https"
        if target and is_safe and urlsplit(urljoin(resp.url, target)).scheme != "https":
            why = f"it redirects from https to {redact_url(target)}, which isn't followed"
            raise requests.exceptions.InvalidURL(why, request=resp.request)
        return target


class _Adapter(requests.adapters.HTTPAdapter):
    """Adapter that sends each request until it is answered, or there are no attempts left."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._trust = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        super().__init__()

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        del kwargs["timeout"]
        send = partial(super().send, request, *args, **kwargs)
        while True:
            try:
                response = self._send_in_time(send)
            except requests.RequestException as problem:  # noqa: PERF203 - so as to try again
                if is_lasting(problem) or not self._attempts.may_retry():
                    raise
            else:
                if response.is_redirect:  # requests would read its content, of any length
                    response.close()
                    response.raw = urllib3.HTTPResponse(BytesIO(), preload_content=False)
                wait = _retry_after(response)
                if response.status_code not in _BUSY or not self._attempts.may_retry(wait):
                    return response
                response.close()

    def _send_in_time(self, send: Callable[..., requests.Response]) -> requests.Response:
        """Bound the whole request: time-outs count for each address, and the lookup has none."""
        attempts = self._attempts
        try:
            send = partial(send, timeout=attempts.timeout)
            return run_within(attempts.left, send, attempts.stop)
        except TimeoutError:
            why = f"no answer within {attempts.retry_policy.limit:.0f} seconds"
            raise requests.Timeout(TimeoutError(why)) from None

    def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:
        host, tls = super().build_connection_pool_key_attributes(*args, **kwargs)
        return host, {**tls, "ssl_context": self._trust}

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]
        if verify is True:  # no bundle is configured, so requests has put its own here
            conn.ca_certs = None


@dataclass(frozen=True, kw_only=True)
class Head:
    """Existence and size of a resource.

    Attributes:
        size: bytes; None where the server gives none.
    """

    is_there: bool
    size: int | None = None


def read_head(url: str, attempts: Attempts, *, fix: str) -> Head:
    """Request the existence and size of a resource; raises DownloadError."""
    if is_local(url):
        path = local_path(url)
        return Head(is_there=path.is_file(), size=path.stat().st_size if path.is_file() else None)
    headers = {"Accept-Encoding": "identity"}  # else the size is that of a compressed transfer
    try:
        with (
            open_session(attempts) as session,
            session.head(url, headers=headers, allow_redirects=True) as response,
        ):
            if response.ok or response.status_code in _GONE:
                size = response.headers.get("Content-Length", "")
                return Head(is_there=response.ok, size=int(size) if size.isdigit() else None)
            raise refused(url, response, fix=fix)
    except requests.RequestException as problem:
        raise unreachable(url, problem, fix=fix) from problem


def is_lasting(problem: BaseException) -> bool:
    """Return True if retrying is useless: a bad certificate, a malformed address."""
    if isinstance(problem, requests.exceptions.SSLError):  # a connection may also just break off
        return not isinstance(_innermost(problem), ssl.SSLEOFError | ssl.SSLZeroReturnError)
    passing = (requests.ConnectionError, requests.Timeout)
    return isinstance(problem, requests.RequestException) and not isinstance(problem, passing)


def certificate_fix(message: str) -> str:
    """Return the fix where OpenSSL refused a certificate, or got none; empty otherwise."""
    if "WRONG_VERSION_NUMBER" in message or "HTTP_REQUEST" in message:
        return _NO_TLS
    if "CERTIFICATE_VERIFY_FAILED" not in message:
        return ""
    return next((fix for part, fix in _CERTIFICATES.items() if part in message), _UNKNOWN_AUTHORITY)


def unreachable(url: str, problem: BaseException, *, fix: str) -> DownloadError:
    """Return the error for an address without a complete answer."""
    host = split_url(url).hostname or "this machine"
    reason = redact_text(reason_of(problem).replace(url, redact_url(url)))
    slow = f"; {SLOW_FIX}" if isinstance(problem, _TIMEOUTS) else ""
    tls_fix = certificate_fix(reason)
    return DownloadError(
        f"{redact_url(url)} could not be downloaded",
        why=f"{host}: {reason}",
        fix=f"{tls_fix}; or {fix}"
        if tls_fix
        else f"{fix}{slow}; behind a proxy set HTTPS_PROXY, for your own certificate authority "
        "SSL_CERT_FILE; without internet see docs/how-to/offline.md",
    )


def refused(url: str, response: requests.Response, *, fix: str) -> DownloadError:
    """Return the error for an address that answered with an error status."""
    status = response.status_code
    phrase = next((f" {known.phrase}" for known in http.HTTPStatus if known == status), "")
    seconds = _retry_after(response)
    wait = f" and asked to retry after {seconds:.0f} seconds" if seconds else ""
    error = DownloadError(
        f"{redact_url(url)} could not be downloaded",
        why=f"the server answered {status}{phrase}{wait}",
        fix=fix,
    )
    error.is_missing = status in _GONE
    return error


def _retry_after(response: requests.Response) -> float:
    """Return the seconds of `Retry-After` (RFC 9110, section 10.2.3); 0: none."""
    try:
        return _RETRY_AFTER.parse_retry_after(response.headers.get("Retry-After", "0"))
    except (urllib3.exceptions.InvalidHeader, OverflowError):
        return 0.0


def reason_of(problem: BaseException) -> str:
    """Return the innermost message of a failure: outer ones name pools, objects and full URLs."""
    problem = _innermost(problem)
    text = str(problem) or type(problem).__name__
    return text.rpartition("object at 0x")[2].partition(">: ")[2] or text


def _innermost(problem: BaseException) -> BaseException:
    candidates = (
        getattr(problem, "reason", None),
        *problem.args[:2],
        problem.__cause__,
        problem.__context__,
    )
    for inner in candidates:
        if isinstance(inner, BaseException):
            return _innermost(inner)
    return problem
