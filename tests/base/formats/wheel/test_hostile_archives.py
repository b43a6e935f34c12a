"""Archives in which installers could find other files than those that were checked."""

from __future__ import annotations

import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import UnsafeArchiveError, WheelIndexError
from cuwheel.base.fetch.indexes.offers import UnreadMetadataError, read_metadata, read_offers
from cuwheel.base.fetch.indexes.pages import PageFault
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.formats.wheel.archive import check_archive, open_wheel, unpack_wheel
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.check.audit.verdict import audit_wheel
from tests.support.factories import write_wheel

_METADATA = "toy-1.0.dist-info/METADATA"
_CENTRAL, _END = b"PK\1\2", b"PK\5\6"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    files: dict[str, bytes | Path] = {"toy.py": b"x = 1\n", "toy2.py": b"y = 2\n"}
    return write_wheel(tmp_path, files, name="toy", version="1.0", tag="py3-none-any")


def add(*names: str) -> Callable[[Path], None]:
    def change(wheel: Path) -> None:
        with warnings.catch_warnings(), zipfile.ZipFile(wheel, "a") as archive:
            warnings.simplefilter("ignore")
            for name in names:
                archive.writestr(name, "import os\n")

    return change


def overlap(wheel: Path) -> None:
    """Let the first member have all bytes up to the last one."""
    content = bytearray(wheel.read_bytes())
    at = content.index(_CENTRAL)
    size = content.rindex(b"PK\3\4") - 40
    struct.pack_into("<II", content, at + 20, size, size)
    wheel.write_bytes(content)


def end_twice(wheel: Path) -> None:
    content = bytearray(wheel.read_bytes())
    tail = bytes(content[content.rindex(_END) :])
    struct.pack_into("<H", content, len(content) - 2, len(tail))
    wheel.write_bytes(content + tail.replace(b"\5\6", b"\5\6", 1))


def other_end(*, to: int = 0, count: int = 0, first: int = 0) -> Callable[[Path], None]:
    """Add a ZIP64 end with another locator, count or first member."""

    def change(wheel: Path) -> None:
        content = wheel.read_bytes()
        end = content.rindex(_END)
        number, size, start = struct.unpack_from("<HLL", content, end + 10)
        counts = (number + count,) * 2
        table = content[start + first : end] if first else b""
        place = (size - first, end) if first else (size, start)
        large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, *counts, *place)
        locator = struct.pack("<4sLQL", b"PK\6\7", 0, end + len(table) + to, 1)
        wheel.write_bytes(content[:end] + table + large + locator + content[end:])

    return change


def begin_with_a_script(wheel: Path) -> None:
    wheel.write_bytes(b"#!/bin/sh\nexit\n" + wheel.read_bytes())


def count_fewer(wheel: Path) -> None:
    content = bytearray(wheel.read_bytes())
    struct.pack_into("<HH", content, content.rindex(_END) + 8, 1, 1)
    wheel.write_bytes(content)


_HOSTILE = {
    "another table": other_end(first=len(_CENTRAL) + 42 + len("toy.py")),
    "locator leads elsewhere": other_end(to=-40),
    "large end counts fewer": other_end(count=-1),
    "small end counts fewer": count_fewer,
    "a script in front": begin_with_a_script,
    "METADATA twice": add(_METADATA),
    "module twice": add("toy.py"),
    "same path, another name": add("./toy.py"),
    "empty part": add("pkg//toy.py"),
    "file and folder": add("toy.py/x.py"),
    "overlapping": overlap,
}


@pytest.mark.parametrize("change", _HOSTILE.values(), ids=_HOSTILE)
def test_no_command_takes_ambiguous_wheel(
    tmp_path: Path, wheel: Path, change: Callable[[Path], None]
) -> None:
    change(wheel)

    with pytest.raises(UnsafeArchiveError):
        check_archive(wheel)
    with pytest.raises(WheelIndexError):
        write_index(tmp_path)
    with pytest.raises(UnsafeArchiveError):
        unpack_wheel(wheel, tmp_path)
    offered = read_offers(tmp_path.as_uri(), "toy", Attempts())
    assert not isinstance(offered, PageFault)
    with pytest.raises(UnreadMetadataError):
        read_metadata(offered[0], Attempts())
    assert is_faulty(wheel)


def is_faulty(wheel: Path) -> bool:
    try:
        return any(finding.rule == "archive" for finding in audit_wheel(wheel).findings)
    except UnsafeArchiveError:
        return True


def test_takes_a_large_end_that_agrees(wheel: Path) -> None:
    other_end()(wheel)

    check_archive(wheel)


def test_comment_hides_no_second_table(wheel: Path) -> None:
    end_twice(wheel)

    with pytest.raises(UnsafeArchiveError):
        check_archive(wheel)


@pytest.mark.parametrize("at", [14, 18, 22], ids=["checksum", "packed", "size"])
def test_header_that_contradicts_the_table_is_damage(wheel: Path, at: int) -> None:
    content = bytearray(wheel.read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\3\4") + at, 3)
    wheel.write_bytes(content)

    assert is_faulty(wheel)


def test_reads_zip64(tmp_path: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in contents.items():
            with archive.open(name, "w", force_zip64=True) as stream:
                stream.write(content)

    check_archive(wheel)
    assert write_index(tmp_path)
    with open_wheel(wheel) as opened, wheel.open("rb") as stream:
        members = [b"".join(member.pieces()) for member in opened.members(stream.fileno())]
        assert len(members) == len(contents)
