"""A real HTTP server on loopback that can misbehave as servers in the world do."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote


@dataclass(kw_only=True)
class Site:
    """What a server holds, how it behaves, and what it was asked.

    Attributes:
        files: content by path.
        port: where it listens.
        scheme: `http` or `https`.
        statuses: error statuses to answer with first, each once.
        retry_after: what these say of the time to ask again; empty for nothing.
        breaks: bytes after which answers break off, each once.
        knows_range: whether `Range` is obeyed.
        says_length: whether answers carry `Content-Length`.
        delay: seconds before each answer.
        password: `Authorization` that is asked for; empty for none.
        moved: where a path redirects to.
        headers: of each answer with content.
        hang_ups: connections that end as soon as the client has spoken, before all others.
        is_mute: whether only HEAD is answered, and GET with silence.
        asked: path and `Range` of each request, in order.
        logins: `Authorization` of each; empty where there was none.
        ended: set when the server ends.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    port: int = 0
    scheme: str = "http"
    statuses: list[int] = field(default_factory=list)
    retry_after: str = ""
    breaks: list[int] = field(default_factory=list)
    knows_range: bool = True
    says_length: bool = True
    delay: float = 0.0
    password: str = ""
    moved: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/html"})
    hang_ups: int = 0
    is_mute: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str, login: str = "") -> str:
        """The address of a path; `login` is `user:password@`."""
        return f"{self.scheme}://{login}127.0.0.1:{self.port}{path}"


@contextlib.contextmanager
def running(server: http.server.HTTPServer, certificate: Path | None = None) -> Iterator[str]:
    """Run a server in a thread until the block ends; gives its address.

    Args:
        certificate: with its key, for TLS; None: without.
    """
    with server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def serving(site: Site, *, certificate: Path | None = None) -> Iterator[Site]:
    """Serve until the block ends, over TLS where a certificate with its key is given."""

    class Handler(_Handler):
        served = site

    class Server(http.server.ThreadingHTTPServer):
        def get_request(self) -> tuple[socket.socket, Any]:
            if not site.hang_ups:
                return super().get_request()
            site.hang_ups -= 1
            connected, _ = socket.socket.accept(self.socket)  # before any handshake
            with connected:
                connected.recv(4096)
            raise ConnectionAbortedError

        def shutdown_request(self, request: Any) -> None:
            if certificate:  # as real servers end TLS; OpenSSL takes it for cut off otherwise
                request.settimeout(1.0)
                with contextlib.suppress(OSError):
                    request.unwrap()
            super().shutdown_request(request)

    server = Server(("127.0.0.1", 0), Handler)
    site.port, site.scheme = server.server_port, "https" if certificate else "http"
    with running(server, certificate):
        try:
            yield site
        finally:
            site.ended.set()


@contextlib.contextmanager
def slow_server(
    pause: float,
    start: str = "HTTP/1.1 200 OK\r\nContent-Type: text/html",
    certificate: Path | None = None,
) -> Iterator[str]:
    """The address of a server whose answers begin at once, and go on by a byte each pause."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate:
        context.load_cert_chain(certificate)

    def talk(connected: socket.socket) -> None:
        if certificate:
            connected = context.wrap_socket(connected, server_side=True)
        with connected, contextlib.suppress(OSError):
            connected.recv(4096)
            connected.sendall(f"{start}\r\nContent-Length: 300000\r\n\r\n".encode())
            while True:
                connected.sendall(b"x")
                time.sleep(pause)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connected, _ = listening.accept()
                threading.Thread(target=talk, args=(connected,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        scheme = "https" if certificate else "http"
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    served: Site

    def do_GET(self) -> None:
        site = self.served
        span = self.headers.get("Range", "")
        site.asked.append((self.path, span))
        site.logins.append(self.headers.get("Authorization", ""))
        time.sleep(site.delay)
        if site.is_mute:
            self._be_mute()
        elif self.path in site.moved:
            self.send_response(302)
            self.send_header("Location", site.moved[self.path])
            self.end_headers()
        elif site.statuses:
            self._refuse(site.statuses.pop(0))
        elif site.password and self.headers.get("Authorization") != site.password:
            self.send_error(401)
        elif unquote(self.path) not in site.files:
            self.send_error(404)
        else:
            self._answer(site.files[unquote(self.path)], span if site.knows_range else "")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        if self.served.retry_after:
            self.send_header("Retry-After", self.served.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _be_mute(self) -> None:
        if self.command == "HEAD":
            self.send_response(200)
            self.end_headers()
        else:
            self.served.ended.wait()

    def _answer(self, content: bytes, span: str) -> None:
        site = self.served
        first, _, last = span.removeprefix("bytes=").partition("-")
        start = int(first or 0)
        stop = min(len(content), int(last) + 1) if last else len(content)
        if span and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if span else 200)
        for name, value in site.headers.items():
            self.send_header(name, value)
        if span:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        if site.says_length:
            self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        end = start + site.breaks.pop(0) if site.breaks else stop
        self.wfile.write(content[start:end])

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""
