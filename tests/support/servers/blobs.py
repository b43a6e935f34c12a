"""A real HTTP server on loopback that keeps what is PUT, as nginx with WebDAV or S3 does."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.server
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.servers.http import running

_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<scope>\S+), "
    r"SignedHeaders=(?P<names>\S+), Signature=(?P<signature>\w+)"
)


@dataclass(kw_only=True)
class Blobs:
    """What a server holds and how it behaves.

    Attributes:
        files: content by path.
        port: where it listens.
        login: `user:password` that is asked for; empty for none.
        s3_secret: key with which requests have to be signed as S3's are; empty for none.
        status: error that every request gets; 0 for none.
        page: what comes with it.
        moved: where GET is redirected to; empty for nowhere.
        headers: of the requests, in order, their names in small letters.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    port: int = 0
    login: str = ""
    s3_secret: str = ""
    status: int = 0
    page: bytes = b""
    moved: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Of its root, without TLS."""
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serve_blobs(blobs: Blobs, certificate: Path | None = None) -> Iterator[Blobs]:
    """Serve until the block ends, over TLS where a certificate with its key is given."""

    class Handler(_Handler):
        kept = blobs

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    blobs.port = server.server_port
    server.daemon_threads = True
    server.block_on_close = False  # clients keep connections open
    with running(server, certificate):
        yield blobs


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept: Blobs

    def do_GET(self) -> None:
        if self.kept.moved:
            self.kept.headers.append(self._headers())
            self._answer(302, headers={"Location": self.kept.moved})
        elif self._may_pass(b""):
            content = self.kept.files.get(self.path)
            self._answer(404 if content is None else 200, content or b"")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self._may_pass(content):
            self.kept.files[self.path] = content
            self._answer(201, headers={"ETag": '"1"'})

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _may_pass(self, content: bytes) -> bool:
        kept, headers = self.kept, self._headers()
        kept.headers.append(headers)
        expected = f"Basic {base64.b64encode(kept.login.encode()).decode()}"
        if kept.status:
            self._answer(kept.status, kept.page)
        elif kept.login and headers.get("authorization") != expected:
            self._answer(401)
        elif kept.s3_secret and not self._is_signed(headers, content):
            self._answer(403)
        else:
            return True
        return False

    def _is_signed(self, headers: Mapping[str, str], content: bytes) -> bool:
        """By Amazon S3's API reference, "Signature calculations for the Authorization header"."""
        signature = _SIGNED.fullmatch(headers.get("authorization", ""))
        digest = hashlib.sha256(content).hexdigest()
        if not signature or headers.get("x-amz-content-sha256") != digest:
            return False
        signed = [f"{name}:{headers[name]}" for name in signature["names"].split(";")]
        request = "\n".join([self.command, self.path, "", *signed, "", signature["names"], digest])
        hashed = hashlib.sha256(request.encode()).hexdigest()
        stamp, scope = headers["x-amz-date"], signature["scope"]
        key = f"AWS4{self.kept.s3_secret}".encode()
        for word in scope.split("/"):
            key = hmac.digest(key, word.encode(), "sha256")
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashed}"
        return hmac.digest(key, text.encode(), "sha256").hex() == signature["signature"]

    def _answer(
        self, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
