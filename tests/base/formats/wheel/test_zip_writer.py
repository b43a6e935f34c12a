from __future__ import annotations

import hashlib
import random
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.formats.wheel import zip_writer
from cuwheel.base.formats.wheel.zip_writer import ZipWriter
from tests.support.factories import EPOCH


def varied(size: int = 1_500_000) -> bytes:
    """Return noise, words and zeros: the same bytes under every Python."""
    dice = random.Random(5)
    words = [dice.randbytes(2 + number % 11) for number in range(1024)]
    text = b"".join(words[dice.getrandbits(10) & dice.getrandbits(10)] for _ in range(100_000))
    return (dice.randbytes(100_000) + text + bytes(200_000) + text[::-1])[:size]


def write(path: Path, *members: tuple[str, bytes], cut: int = 1 << 20, epoch: int = EPOCH) -> Path:
    with path.open("wb") as stream:
        archive = ZipWriter(stream, epoch=epoch)
        for name, content in members:
            pieces = (content[at : at + cut] for at in range(0, len(content), cut))
            archive.add(name, pieces, mode=0o644, size=len(content))
        archive.finish()
    return path


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_python_reads_what_it_writes(tmp_path: Path) -> None:
    members = {"pkg/a.py": b"x = 1\n", "pkg/größe.txt": varied(), "pkg/empty": b""}

    assert read(write(tmp_path / "a.zip", *members.items())) == members


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (EPOCH, (2023, 11, 14, 22, 13, 20)),
        (0, (1980, 1, 1, 0, 0, 0)),
        (1 << 33, (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_gives_every_member_one_time(
    tmp_path: Path, epoch: int, expected: tuple[int, int, int, int, int, int]
) -> None:
    with zipfile.ZipFile(write(tmp_path / "a.zip", ("a", b""), ("b", b""), epoch=epoch)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {expected}


def test_writes_same_bytes_on_every_machine(tmp_path: Path) -> None:
    """Where a new zlib-ng changes them, all wheels change: note it in CHANGELOG.md."""
    packed = write(tmp_path / "a.zip", ("a.bin", varied())).read_bytes()

    digest = hashlib.sha256(packed).hexdigest()
    assert digest == "7c552f963e7d22e741528286da1b4d191f02688274734584740790aa4273a292"


@pytest.mark.parametrize("cut", [1, 4099, 1 << 30])
def test_writes_same_bytes_however_content_is_cut(tmp_path: Path, cut: int) -> None:
    member = ("a.bin", varied())

    assert (
        write(tmp_path / "cut.zip", member, cut=cut).read_bytes()
        == write(tmp_path / "a.zip", member).read_bytes()
    )


def test_stores_no_more_than_content_needs(tmp_path: Path) -> None:
    """Incompressible content decides where zip64 begins."""
    noise = random.Random(1).randbytes(1 << 20)

    packed = write(tmp_path / "a.zip", ("noise", noise))

    assert packed.stat().st_size < len(noise) * (1 + 1 / zip_writer._GROWTH)


@pytest.mark.parametrize("limit", [10, 500, 20_000])
def test_uses_zip64_where_sizes_or_places_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(zip_writer, "_LIMIT", limit)
    members = {"small": b"x", "large": varied(40_000), "zeros": bytes(40_000), "last": b""}

    path = write(tmp_path / "a.zip", *members.items())

    assert read(path) == members


@pytest.mark.e2e
def test_uses_zip64_for_many_members(tmp_path: Path) -> None:
    members = [(str(number), b"") for number in range(1 << 16)]

    with zipfile.ZipFile(write(tmp_path / "a.zip", *members)) as archive:
        assert archive.namelist() == [name for name, _ in members]


def test_refuses_content_of_other_size(tmp_path: Path) -> None:
    with (tmp_path / "a.zip").open("wb") as stream, pytest.raises(OSError, match="had 2 bytes"):
        ZipWriter(stream, epoch=EPOCH).add("a", [b"x"], mode=0o644, size=2)
