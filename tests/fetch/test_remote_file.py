"""A file on a real server, read in parts."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import DownloadError
from cuwheel.fetch import remote_file
from cuwheel.fetch.remote_file import open_remote
from tests.support.factories import write_wheel
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from pathlib import Path

_WINDOW = 1 << 16


@pytest.fixture(autouse=True)
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(remote_file, "_WINDOW", _WINDOW)


def test_reads_members_without_the_rest(tmp_path: Path) -> None:
    files: dict[str, bytes | Path] = {
        "a.bin": bytes(100 * _WINDOW),
        "b.bin": bytes(range(256)) * 1024,
        "c.bin": bytes(100 * _WINDOW),
    }
    content = write_wheel(tmp_path, files).read_bytes()

    with (
        serving(Site(files={"/w.whl": content})) as site,
        open_remote(site.url("/w.whl")) as stream,
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
        open_remote(site.url("/x"))

    assert "in parts" in caught.value.what


def test_tells_that_file_is_not_there() -> None:
    with serving(Site()) as site, pytest.raises(DownloadError):
        open_remote(site.url("/x"))
