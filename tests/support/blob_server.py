"""A real HTTP server on loopback that keeps what is PUT, as nginx with WebDAV does."""

from __future__ import annotations

import base64
import contextlib
import http.server
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(kw_only=True)
class Blobs:
    """What a server holds and how it behaves.

    Attributes:
        files: content by path.
        port: where it listens.
        login: `user:password` that is asked for; empty for none.
        status: error that every request gets; 0 for none.
        headers: of the requests, in order.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    port: int = 0
    login: str = ""
    status: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)


@contextlib.contextmanager
def keeping(blobs: Blobs) -> Iterator[Blobs]:
    """Serve until the block ends."""

    class Handler(_Handler):
        kept = blobs

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        blobs.port = server.server_address[1]
        server.daemon_threads = True
        server.block_on_close = False  # clients keep connections open
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield blobs
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept: Blobs

    def do_GET(self) -> None:
        if self._may_pass():
            content = self.kept.files.get(self.path)
            self._answer(404 if content is None else 200, content or b"")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self._may_pass():
            self.kept.files[self.path] = content
            self._answer(201)

    def _may_pass(self) -> bool:
        self.kept.headers.append(dict(self.headers))
        expected = f"Basic {base64.b64encode(self.kept.login.encode()).decode()}"
        if self.kept.status:
            self._answer(self.kept.status)
        elif self.kept.login and self.headers["Authorization"] != expected:
            self._answer(401)
        else:
            return True
        return False

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
