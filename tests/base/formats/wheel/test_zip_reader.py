from __future__ import annotations

import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.formats.wheel.zip_reader import PIECE, SeekableMember

_MIB = 1 << 20
_NAME = "pkg/lib.so"


def _content(size: int) -> bytes:
    """Return bytes that pack to about a half."""
    chance = random.Random(0)
    return b"".join(chance.randbytes(1 << 10) + bytes(1 << 10) for _ in range(size >> 11))


@pytest.fixture(scope="module")
def content() -> bytes:
    return _content(30 * _MIB)


@pytest.fixture(scope="module", params=[zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def archive(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> Path:
    path = tmp_path_factory.mktemp("zip") / "a.zip"
    with zipfile.ZipFile(path, "w", request.param, compresslevel=1) as written:
        written.writestr("before.txt", "something before it")
        written.writestr(_NAME, content)
    return path


@pytest.fixture
def member(archive: Path) -> Iterator[SeekableMember]:
    with zipfile.ZipFile(archive) as opened, archive.open("rb") as stream:
        yield SeekableMember(stream.fileno(), opened.getinfo(_NAME))


def _pack(path: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as written:
        written.writestr(_NAME, _content(_MIB))
    return path


def _read(archive: Path, entry: zipfile.ZipInfo | None = None) -> int:
    with zipfile.ZipFile(archive) as opened, archive.open("rb") as stream:
        return sum(
            map(len, SeekableMember(stream.fileno(), entry or opened.getinfo(_NAME)).pieces())
        )


def test_gives_content_in_small_pieces(member: SeekableMember, content: bytes) -> None:
    pieces = list(member.pieces())

    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= PIECE


def test_reads_any_place_afterwards(member: SeekableMember, content: bytes) -> None:
    chance = random.Random(0)
    for _ in member.pieces():
        pass

    with member.open() as stream:
        for _ in range(60):
            place, size = chance.randrange(len(content)), chance.choice([1, 64, 5000, 3 * _MIB])
            stream.seek(place)
            assert stream.read(size) == content[place : place + size]


def test_ends_where_content_ends(member: SeekableMember, content: bytes) -> None:
    for _ in member.pieces():
        pass

    with member.open() as stream:
        assert stream.seek(-3, 2) == len(content) - 3
        assert stream.read() == content[-3:]
        assert stream.read() == b""


def test_takes_empty_member(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr(_NAME, b"")

    assert _read(path) == 0


def test_refuses_content_that_was_changed(tmp_path: Path) -> None:
    path = _pack(tmp_path / "a.zip", zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[_MIB // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(zipfile.BadZipFile, match="doesn't match its checksum"):
        _read(path)


@pytest.mark.parametrize(
    ("field", "value", "fact"),
    [
        ("file_size", 1000, "longer than its entry states"),
        ("compress_size", 1000, "is truncated"),
        ("flag_bits", 1, "is encrypted"),
        ("orig_filename", "pkg/other.so", "a different name in its header"),
        ("header_offset", 7, "has no header"),
    ],
)
def test_refuses_entry_that_lies(tmp_path: Path, field: str, value: object, fact: str) -> None:
    path = _pack(tmp_path / "a.zip")
    with zipfile.ZipFile(path) as opened:
        entry = opened.getinfo(_NAME)
    content = bytearray(path.read_bytes())
    content[entry.header_offset + 6] |= 8  # as a stream is written: its sizes come later
    path.write_bytes(content)
    setattr(entry, field, value)

    with pytest.raises(zipfile.BadZipFile, match=fact):
        _read(path, entry)


def test_refuses_method_that_wheels_do_not_use(tmp_path: Path) -> None:
    path = _pack(tmp_path / "a.zip", zipfile.ZIP_BZIP2)

    with pytest.raises(NotImplementedError, match="compressed with method 12"):
        _read(path)
