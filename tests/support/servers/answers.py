"""A server on loopback that answers each GET with given bytes: what no sound server sends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def answering(*pieces: bytes) -> Iterator[int]:
    """Serve one answer to each GET of Redis or HTTP, and "+OK" to Redis's other commands."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=_answer, args=(connection, pieces), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def _answer(connection: socket.socket, pieces: tuple[bytes, ...]) -> None:
    with connection, contextlib.suppress(OSError):
        while request := connection.recv(1 << 16):
            if b"GET" not in request:
                connection.sendall(b"+OK\r\n" * (request.count(b"\r\n*") + 1))
                continue
            for piece in pieces:
                connection.sendall(piece)
