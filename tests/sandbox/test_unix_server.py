"""A server at a Unix socket."""

from __future__ import annotations

import gc
import os
import socket
import socketserver
import stat
from pathlib import Path

import pytest

from cuwheel.sandbox.unix_server import serve_unix


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(self.rfile.readline())


def ask(path: Path) -> bytes:
    folder = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as talk:
        talk.connect(f"/proc/self/fd/{folder}/{path.name}")
        talk.sendall(b"words\n")
        said = talk.recv(100)
    os.close(folder)
    return said


def test_serves_at_a_path_of_any_length_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "x.sock"
    path.parent.mkdir()

    with serve_unix(path, Echo):
        assert ask(path) == b"words\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    assert not path.exists()


def test_replaces_what_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    path.symlink_to(tmp_path / "elsewhere")

    with serve_unix(path, Echo):
        assert ask(path) == b"words\n"

    assert not (tmp_path / "elsewhere").exists()


def test_leaves_nothing_open_where_a_disk_knows_no_sockets() -> None:
    """A socket that nobody closes warns, and warnings are errors here."""
    with pytest.raises(OSError, match=r"\[Errno "), serve_unix(Path("/proc/x.sock"), Echo):
        pass

    gc.collect()
