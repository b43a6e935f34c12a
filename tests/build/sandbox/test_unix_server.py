"""A server at a Unix socket."""

from __future__ import annotations

import gc
import os
import socket
import socketserver
import stat
from pathlib import Path

import pytest

from cuwheel.build.sandbox.unix_server import make_socket_folder, serve_unix


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(self.rfile.readline())


def request(path: Path) -> bytes:
    folder = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as talk:
        talk.connect(f"/proc/self/fd/{folder}/{path.name}")
        talk.sendall(b"words\n")
        reply = talk.recv(100)
    os.close(folder)
    return reply


def test_serves_at_a_path_of_any_length_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "x.sock"
    path.parent.mkdir()

    with serve_unix(path, Echo):
        assert request(path) == b"words\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    assert not path.exists()


def test_replaces_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    path.symlink_to(tmp_path / "elsewhere")

    with serve_unix(path, Echo):
        assert request(path) == b"words\n"

    assert not (tmp_path / "elsewhere").exists()


def test_leaves_nothing_open_where_a_disk_knows_no_sockets() -> None:
    """A socket that isn't closed warns, and warnings are errors here."""
    with pytest.raises(OSError, match=r"\[Errno "), serve_unix(Path("/proc/x.sock"), Echo):
        pass

    gc.collect()


@pytest.mark.parametrize(("temporary", "above"), [("/var/tmp", "/var/tmp"), ("d" * 100, "/tmp")])
def test_keeps_the_paths_of_sockets_short(
    temporary: str, above: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / temporary))

    with make_socket_folder(deep, is_sandboxed=False) as folder:
        assert len(str(folder / "sccache.sock")) < 108
        assert folder.parent == Path(above)
        assert folder.stat().st_mode & 0o777 == 0o700

    assert not folder.exists()


def test_replaces_files_in_the_folder_of_sockets(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "file"
    kept.parent.mkdir()
    kept.touch()
    (tmp_path / "sockets").symlink_to(kept.parent)

    with make_socket_folder(tmp_path, is_sandboxed=True) as folder:
        assert list(folder.iterdir()) == []

    assert kept.exists()
