"""A file on a real server, read in parts."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.remote_file import open_remote
from tests.support.factories import write_wheel
from tests.support.servers.http import Site, serving, slow_server

_WINDOW = 1 << 16


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_reads_members_without_the_rest(tmp_path: Path) -> None:
    files: dict[str, bytes | Path] = {
        "a.bin": bytes(100 * _WINDOW),
        "b.bin": bytes(range(256)) * 1024,
        "c.bin": bytes(100 * _WINDOW),
    }
    content = write_wheel(tmp_path, files).read_bytes()

    with (
        serving(Site(files={"/w.whl": content})) as site,
        open_remote(site.url("/w.whl"), window=_WINDOW) as stream,
    ):
        assert zipfile.ZipFile(stream).read("b.bin") == files["b.bin"]
        spans = {span for _, span in site.asked}

    assert len(spans) == len(site.asked) < 12


def test_reads_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"content")

    with open_remote((tmp_path / "x").as_uri()) as stream:
        stream.seek(3)
        assert stream.read() == b"tent"


def test_refuses_server_without_parts() -> None:
    site = Site(files={"/x": b"content"}, knows_range=False)

    with serving(site), pytest.raises(DownloadError) as caught:
        open_remote(site.url("/x"), window=_WINDOW)

    assert "in parts" in caught.value.what


def test_reports_missing_file() -> None:
    with serving(Site()) as site, pytest.raises(DownloadError):
        open_remote(site.url("/x"), window=_WINDOW)


def test_takes_no_more_than_it_requested() -> None:
    content = bytes(4 * _WINDOW)
    site = Site(files={"/x": content}, knows_range=False)
    site.headers = {"Content-Range": f"bytes 0-{_WINDOW - 1}/{len(content)}"}

    with serving(site), open_remote(site.url("/x"), window=_WINDOW) as stream:
        assert stream.read(100) == content[:100]
        stream.seek(_WINDOW)
        with pytest.raises(DownloadError, match="in parts"):
            stream.read(1)


def test_refuses_compressed_transfer() -> None:
    content = gzip.compress(bytes(4 * _WINDOW))
    site = Site(files={"/x": content}, knows_range=False)
    site.headers = {"Content-Range": f"bytes 0-99/{len(content)}", "Content-Encoding": "gzip"}

    with serving(site), pytest.raises(DownloadError, match="in parts"):
        open_remote(site.url("/x"), window=100)


@pytest.mark.e2e
def test_gives_up_on_slow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_SLOW_NETWORK", "0.08")
    start = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-299999/300000"

    with slow_server(0.05, start) as address, pytest.raises(DownloadError) as caught:
        open_remote(f"{address}/x", window=_WINDOW)

    assert "bytes came in 2 seconds" in caught.value.why
    assert "CUWHEEL_SLOW_NETWORK=4" in caught.value.fix


def test_reports_part_that_breaks_off() -> None:
    site = Site(files={"/x": bytes(_WINDOW)}, breaks=[100])

    with serving(site), pytest.raises(DownloadError) as caught:
        open_remote(site.url("/x"), window=_WINDOW)

    assert "100 bytes read" in caught.value.why
