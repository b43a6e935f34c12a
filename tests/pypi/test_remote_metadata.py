"""METADATA of wheels on a real server, without the wheels."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from cuwheel import limits
from cuwheel.fetch.retry import Attempts
from cuwheel.pypi.offers import Offer
from cuwheel.pypi.remote_metadata import UnreadMetadataError, read_metadata
from tests.support.factories import HASTY, write_wheel
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 1 << 20  # bytes


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    wheel = write_wheel(tmp_path, {"a.bin": bytes(SIZE)}, requires=("torch==2.11.*",))
    with serving(Site(files={"/w.whl": wheel.read_bytes()})) as site:
        yield site


def offer(url: str, **facts: object) -> Offer:
    version = Version("1.2.3")
    return Offer(name="w.whl", url=url, index="", version=version, is_wheel=True, **facts)  # type: ignore[arg-type]


def read(found: Offer) -> str:
    return read_metadata(found, Attempts(HASTY))


def test_reads_parts_of_the_wheel(site: Site) -> None:
    text = read(offer(site.url("/w.whl")))

    assert "Requires-Dist: torch==2.11.*" in text
    assert len(site.asked) == 2
    assert all(span for _, span in site.asked)


def test_takes_what_lies_beside_it(site: Site) -> None:
    site.files["/w.whl.metadata"] = b"Name: beside\n"

    text = read(offer(site.url("/w.whl"), has_metadata=True))

    assert text == "Name: beside\n"


def test_refuses_what_lies_beside_it_with_another_hash(site: Site) -> None:
    site.files["/w.whl.metadata"] = b"Name: beside\n"
    promised = hashlib.sha256(b"other").hexdigest()

    text = read(offer(site.url("/w.whl"), has_metadata=True, metadata_sha256=promised))

    assert "Name: tiny_cuda" in text


def test_reads_file_of_this_machine(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {})

    assert "Name: tiny_cuda" in read(offer(wheel.as_uri()))


def test_says_that_server_gives_no_parts(site: Site) -> None:
    site.knows_range = False

    with pytest.raises(UnreadMetadataError, match="can't be read in parts") as caught:
        read(offer(site.url("/w.whl")))

    assert not caught.value.is_unusable


@pytest.mark.parametrize(("status", "is_unusable"), [(404, True), (410, True), (403, False)])
def test_says_that_wheel_is_gone(status: int, is_unusable: bool, site: Site) -> None:  # noqa: FBT001
    site.statuses = [status]

    with pytest.raises(UnreadMetadataError, match=str(status)) as caught:
        read(offer(site.url("/w.whl")))

    assert caught.value.is_unusable is is_unusable


def test_says_that_file_is_gone(tmp_path: Path) -> None:
    with pytest.raises(UnreadMetadataError) as caught:
        read(offer((tmp_path / "w.whl").as_uri()))

    assert caught.value.is_unusable


@pytest.mark.parametrize("length", [0, 1, 100, SIZE])
def test_says_that_wheel_is_damaged(length: int, site: Site) -> None:
    site.files["/w.whl"] = site.files["/w.whl"][:length]

    with pytest.raises(UnreadMetadataError, match="damaged") as caught:
        read(offer(site.url("/w.whl")))

    assert caught.value.is_unusable


def test_refuses_table_of_members_beyond_all_measure(site: Site) -> None:
    content = bytearray(site.files["/w.whl"] + bytes(limits.ARCHIVE_TABLE))
    end = content.rindex(b"PK\5\6")
    record = bytes(content[end : end + 22])
    size = limits.ARCHIVE_TABLE + (1 << 16)
    content[end:] = bytes(len(content) - end)
    content += record[:12] + struct.pack("<II", size, len(content) - size) + record[20:]
    site.files["/w.whl"] = bytes(content)

    with pytest.raises(UnreadMetadataError, match="table of members"):
        read(offer(site.url("/w.whl")))
