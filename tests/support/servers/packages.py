"""A real pypiserver on this machine, which may die in the middle of uploads."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import wait_for

# Whoever comes may upload; a project that it hasn't got it hasn't got.
_SERVER = """
import os, sys, pypiserver
from wsgiref.simple_server import WSGIRequestHandler, make_server
folder, port, uploads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = pypiserver.app(roots=[folder], authenticate=[], password_file=".", disable_fallback=True)

def dying(environ, start_response):
    global uploads
    if environ["REQUEST_METHOD"] == "POST":
        if not uploads:
            os._exit(1)
        uploads -= 1
    return app(environ, start_response)

make_server("127.0.0.1", port, dying).serve_forever()
"""
_MANY = 1000


@contextlib.contextmanager
def serving_packages(folder: Path, *, uploads: int = _MANY, port: int = 0) -> Iterator[str]:
    """A package index over a folder; gives the address for uploads.

    Args:
        folder: with its packages.
        uploads: so many are taken; at the next one it dies.
        port: where it listened before.
    """
    folder.mkdir(exist_ok=True)
    port = port or _free_port()
    command = [sys.executable, "-c", _SERVER, str(folder), str(port), str(uploads)]
    with (folder.parent / "pypiserver.log").open("ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(lambda: server.poll() is not None or _answers(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
