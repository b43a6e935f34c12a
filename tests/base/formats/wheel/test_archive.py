from __future__ import annotations

import base64
import csv
import hashlib
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import uv

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.formats.wheel.archive import (
    normalise,
    open_wheel,
    pack,
    unpack_wheel,
)
from cuwheel.base.system import process
from tests.support.factories import EPOCH, write_wheel

_FILES = {"pkg/__init__.py": b"x = 1\n", "pkg/run.sh": b"#!/bin/sh\n", "pkg/z.so": b"z"}
_DIST_INFO = "tiny_cuda-1.2.3.dist-info"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "wheel", _FILES, modes={"pkg/run.sh": 0o755})


@pytest.fixture
def folder(tmp_path: Path, wheel: Path) -> Path:
    return _unpack(wheel, tmp_path / "folder")


@pytest.fixture
def narrow_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def _unpack(wheel: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    unpack_wheel(wheel, folder)
    return folder


def _normalise(wheel: Path, path: Path) -> None:
    normalise(wheel, path.with_suffix(".whl"), epoch=EPOCH)


def _pack(folder: Path, name: str = "packed.whl") -> Path:
    path = folder.parent / name
    pack(folder, path, epoch=EPOCH)
    return path


@pytest.mark.usefixtures("narrow_umask")
def test_packs_same_bytes_under_any_umask_time_and_order(folder: Path) -> None:
    first = _pack(folder)

    other = folder.with_name("other")
    for name in ("pkg/z.so", "pkg/run.sh", "pkg/__init__.py"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_bytes(_FILES[name])
    (other / "pkg/run.sh").chmod(0o700)
    (other / "empty").mkdir()
    (folder / _DIST_INFO).rename(other / _DIST_INFO)
    os.utime(other / "pkg/z.so", (1, 1))

    assert _pack(other, "other.whl").read_bytes() == first.read_bytes()


def test_packs_unpacked_wheel_to_same_bytes(tmp_path: Path, folder: Path) -> None:
    first = _pack(folder)

    again = _pack(_unpack(first, tmp_path / "again"), "again.whl")

    assert again.read_bytes() == first.read_bytes()


def test_normalises_to_the_bytes_of_packing(tmp_path: Path, wheel: Path, folder: Path) -> None:
    normalise(wheel, tmp_path / "once.whl", epoch=EPOCH)
    normalise(tmp_path / "once.whl", tmp_path / "twice.whl", epoch=EPOCH)

    for name in ("once.whl", "twice.whl"):
        assert (tmp_path / name).read_bytes() == _pack(folder).read_bytes()


def test_orders_members_with_record_last(folder: Path) -> None:
    (folder / "zzz.py").touch()

    with zipfile.ZipFile(_pack(folder)) as archive:
        names = archive.namelist()

    own = [f"{_DIST_INFO}/{name}" for name in ("METADATA", "WHEEL", "RECORD")]
    assert names == ["pkg/__init__.py", "pkg/run.sh", "pkg/z.so", "zzz.py", *own]


def test_gives_members_plain_modes(folder: Path) -> None:
    with zipfile.ZipFile(_pack(folder)) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}

    assert modes["pkg/__init__.py"] == 0o100644
    assert modes["pkg/run.sh"] == 0o100755
    assert modes["pkg/z.so"] == 0o100755  # of any mode before


def test_writes_record_that_other_code_agrees_with(folder: Path) -> None:
    """Hashed by hand: the engine checks a RECORD with the code that writes it."""
    (folder / "pkg/a, b.txt").write_text("a comma has to be quoted\n")
    (folder / "pkg/large.bin").write_bytes(b"larger than what is read at once" * (1 << 16))

    with zipfile.ZipFile(_pack(folder)) as archive:
        lines = archive.read(f"{_DIST_INFO}/RECORD").decode().splitlines()
        rows = {name: (digest, size) for name, digest, size in csv.reader(lines)}
        expected = {name: _row(archive.read(name)) for name in archive.namelist()}

    assert rows == {**expected, f"{_DIST_INFO}/RECORD": ("", "")}
    assert rows["pkg/large.bin"][1] == str(1 << 21)


def _row(content: bytes) -> tuple[str, str]:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"sha256={digest}", str(len(content))


def test_drops_void_signatures(folder: Path) -> None:
    (folder / _DIST_INFO / "RECORD.jws").write_text("of the old RECORD")

    with zipfile.ZipFile(_pack(folder)) as archive:
        assert f"{_DIST_INFO}/RECORD.jws" not in archive.namelist()


def test_packs_wheel_that_installs(tmp_path: Path, folder: Path) -> None:
    wheel = _pack(folder, "tiny_cuda-1.2.3-py3-none-any.whl")
    site = tmp_path / "site"

    process.run(
        [
            *(uv.find_uv_bin(), "pip", "install", "--offline", "--no-deps", "--no-cache"),
            *("--python", sys.executable, "--target", str(site), str(wheel)),
        ],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
    )

    assert (site / "pkg/__init__.py").read_bytes() == _FILES["pkg/__init__.py"]


@pytest.mark.usefixtures("narrow_umask")
def test_unpacks_plain_modes_under_any_umask(folder: Path) -> None:
    modes = [(folder / name).stat().st_mode & 0o777 for name in ("pkg/z.so", "pkg/run.sh")]

    assert modes == [0o644, 0o755]


@pytest.mark.parametrize("name", ["../out.py", "/etc/out.py", "pkg/../../out.py", "pkg\\out.py"])
def test_refuses_member_that_climbs_out(tmp_path: Path, wheel: Path, name: str) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, b"")

    for take in (_unpack, _normalise):
        with pytest.raises(UnsafeArchiveError) as caught:
            take(wheel, tmp_path / "folder")
        assert f"{name}: its name is not a plain path" in caught.value.why


def test_refuses_link(tmp_path: Path, wheel: Path) -> None:
    entry = zipfile.ZipInfo("pkg/link")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(entry, "/etc/passwd")

    with pytest.raises(UnsafeArchiveError, match="could not be unpacked safely"):
        _unpack(wheel, tmp_path / "folder")


def test_refuses_damaged_archive(tmp_path: Path, wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes().replace(_FILES["pkg/__init__.py"], b"x = 2\n"))

    for take in (_unpack, _normalise):
        with pytest.raises(UnsafeArchiveError, match="is damaged"):
            take(wheel, tmp_path / "folder")


def test_refuses_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "text.whl"
    path.write_text("not a zip archive")

    with pytest.raises(UnsafeArchiveError, match="is damaged"), open_wheel(path):
        pass


@pytest.mark.parametrize("extra", [(), ("a-1.dist-info/WHEEL", "b-1.dist-info/WHEEL")])
def test_refuses_archive_without_single_dist_info(tmp_path: Path, extra: tuple[str, ...]) -> None:
    path = tmp_path / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("some.dist-info", *extra):
            archive.writestr(name, b"")

    with pytest.raises(UnsafeArchiveError, match="is not a wheel"), open_wheel(path):
        pass
