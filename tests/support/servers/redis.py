"""A real Redis server on loopback."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.requirements import require

_LONGEST_SOCKET = 107  # bytes; unix(7), sun_path
_TIME_LIMIT = 120.0  # seconds


@contextlib.contextmanager
def redis_server(
    folder: Path, *, password: str = "", port: int = 0, certificate: Path | None = None
) -> Iterator[int]:
    """Run one until the block ends; gives its port. Skips the test where Redis isn't installed.

    Args:
        folder: where it runs; its socket is `redis.sock` there, where the path isn't too long.
        password: that it asks for; empty for none.
        port: where it listens; 0 for any.
        certificate: with its key in one file: it speaks TLS.
    """
    require("redis", "the compile cache behind a Redis server")
    if not port:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
    words = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    words += ["--unixsocket", "redis.sock"]
    if certificate:
        words += ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
        for name in ("cert", "key", "ca-cert"):
            words += [f"--tls-{name}-file", str(certificate)]
    else:
        words += ["--port", str(port)]
    if password:
        words += ["--requirepass", password]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            _wait_for(socket.AF_INET, ("127.0.0.1", port), server)
            path = str(folder / "redis.sock")
            if len(path) <= _LONGEST_SOCKET:
                _wait_for(socket.AF_UNIX, path, server)
            yield port
        finally:
            server.kill()


def _wait_for(family: int, address: Any, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _TIME_LIMIT
    with socket.socket(family) as probe:
        while probe.connect_ex(address):
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
