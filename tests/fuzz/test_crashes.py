"""What once crashed a reader, or would: each is read again."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from tests.fuzz.readers import INFO, READERS, TEXTS, WHEEL, write_wheel_with

_DEEP = b"[" * 100_000
_HEADERS = TEXTS["METADATA"].partition(b"\n\n")[0] + b"\n"


@pytest.mark.parametrize(
    ("reader", "content"),
    [
        ("failure", b"1"),
        *((name, _DEEP) for name in ("failure", "statement", "mirror", "events")),
        ("statement", b"[]"),
        ("metadata", TEXTS["METADATA"][:-9] + b"Requires-Dist: a; " + b"(" * 100_000 + b"\n"),
        ("tags", b"Tag: a: 1.0-x-any\n"),
        ("ptx", b".entry"),
        ("index", b"<a>" * 1000),
        *(
            (reader, _HEADERS + f"Requires-Dist: torch==1 ; {marker}\n".encode())
            for reader in ("metadata", "offer")
            for marker in ("platform_machine ~= 'x'", "python_version ~= 'x'", "'x' in extras")
        ),
        ("offer", _HEADERS + b"Requires-Dist: cuda-toolkit===foo\n"),
        ("release", _DEEP),
        *(("release", text) for text in (b"1", b"[1]", b'[{"assets": 1}]', b'{"files": [1]}')),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_what_once_crashed_it(reader: str, content: bytes) -> None:
    READERS[reader](content)


def test_answers_members_that_lie_before_the_archive(tmp_path: Path) -> None:
    path = write_wheel_with(tmp_path / WHEEL, {f"{INFO}/a": b"a"})
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.start_dir
    # The offset that the end of the archive gives: zipfile takes the difference off all others.
    content[-6:-2] = struct.pack("<I", start + 1000)

    READERS["wheel"](bytes(content))


def test_answers_member_without_name(tmp_path: Path) -> None:
    path = write_wheel_with(tmp_path / WHEEL, {"x": b""})

    READERS["wheel"](path.read_bytes().replace(b"x", b"\0"))
