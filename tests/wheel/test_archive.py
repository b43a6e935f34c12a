from __future__ import annotations

import os
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
import uv

from cuwheel.errors import UnsafeArchiveError
from cuwheel.system import process
from cuwheel.wheel.archive import (
    Content,
    normalise,
    open_wheel,
    pack,
    read_through,
    record_faults,
    unpack_wheel,
)
from tests.support.factories import EPOCH, write_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def _pack(folder: Path, name: str = "packed.whl", epoch: int = EPOCH) -> Path:
    path = folder.parent / name
    pack(folder, path, epoch=epoch)
    return path


def _contents(wheel: Path) -> dict[str, Content]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: read_through(archive.open(name), lambda _: None) for name in archive.namelist()
        }


def _faults(wheel: Path) -> tuple[tuple[str, str], ...]:
    with open_wheel(wheel) as opened:
        return record_faults(opened, _contents(wheel))


def _with_record(wheel: Path, old: str, new: str) -> Path:
    """A copy of a wheel with its RECORD changed, and nothing else."""
    path = wheel.with_name("changed.whl")
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name).decode()
            if name.endswith("RECORD"):
                assert old in content
                content = content.replace(old, new)
            target.writestr(name, content)
    return path


@pytest.mark.usefixtures("narrow_umask")
def test_packs_same_bytes_whatever_umask_time_and_order(folder: Path) -> None:
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


def test_packs_what_it_unpacked_to_same_bytes(tmp_path: Path, folder: Path) -> None:
    first = _pack(folder)

    again = _pack(_unpack(first, tmp_path / "again"), "again.whl")

    assert again.read_bytes() == first.read_bytes()


def test_normalises_to_what_packing_gives(tmp_path: Path, wheel: Path, folder: Path) -> None:
    normalise(wheel, tmp_path / "normal.whl", epoch=EPOCH)

    assert (tmp_path / "normal.whl").read_bytes() == _pack(folder).read_bytes()


def test_normalises_what_is_normal_to_same_bytes(tmp_path: Path, wheel: Path) -> None:
    normalise(wheel, tmp_path / "once.whl", epoch=EPOCH)

    normalise(tmp_path / "once.whl", tmp_path / "twice.whl", epoch=EPOCH)

    assert (tmp_path / "twice.whl").read_bytes() == (tmp_path / "once.whl").read_bytes()


def test_refuses_to_normalise_member_that_climbs_out(tmp_path: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("../out.py", b"")

    with pytest.raises(UnsafeArchiveError) as caught:
        normalise(wheel, tmp_path / "normal.whl", epoch=EPOCH)

    assert "../out.py: its name is not a plain path" in caught.value.why


def test_refuses_to_normalise_damaged_archive(tmp_path: Path, wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes().replace(_FILES["pkg/__init__.py"], b"x = 2\n"))

    with pytest.raises(UnsafeArchiveError, match="is damaged"):
        normalise(wheel, tmp_path / "normal.whl", epoch=EPOCH)


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
    assert modes["pkg/z.so"] == 0o100755  # whatever the mode of the library that was grafted


@pytest.mark.parametrize(
    ("epoch", "expected"), [(EPOCH, (2023, 11, 14, 22, 13, 20)), (0, (1980, 1, 1, 0, 0, 0))]
)
def test_gives_members_source_time(
    folder: Path, epoch: int, expected: tuple[int, int, int, int, int, int]
) -> None:
    with zipfile.ZipFile(_pack(folder, epoch=epoch)) as archive:
        times = {entry.date_time for entry in archive.infolist()}

    assert times == {expected}


def test_writes_sound_record(folder: Path) -> None:
    (folder / "pkg/a, b.txt").write_text("a comma has to be quoted\n")

    assert _faults(_pack(folder)) == ()


def test_drops_void_signatures(folder: Path) -> None:
    (folder / _DIST_INFO / "RECORD.jws").write_text("of the old RECORD")

    with zipfile.ZipFile(_pack(folder)) as archive:
        assert f"{_DIST_INFO}/RECORD.jws" not in archive.namelist()


def test_packs_wheel_that_installs(tmp_path: Path, folder: Path) -> None:
    wheel = _pack(folder, "tiny_cuda-1.2.3-py3-none-any.whl")
    site = tmp_path / "site"

    process.run(
        [
            uv.find_uv_bin(),
            "pip",
            "install",
            "--offline",
            "--no-deps",
            "--no-cache",
            "--python",
            sys.executable,
            "--target",
            str(site),
            str(wheel),
        ],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
    )

    assert (site / "pkg/__init__.py").read_bytes() == _FILES["pkg/__init__.py"]


@pytest.mark.usefixtures("narrow_umask")
def test_unpacks_plain_modes_whatever_umask(folder: Path) -> None:
    modes = [(folder / name).stat().st_mode & 0o777 for name in ("pkg/z.so", "pkg/run.sh")]

    assert modes == [0o644, 0o755]


@pytest.mark.parametrize("name", ["../out.py", "/etc/out.py", "pkg/../../out.py", "pkg\\out.py"])
def test_refuses_member_that_climbs_out(tmp_path: Path, wheel: Path, name: str) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, b"")

    with pytest.raises(UnsafeArchiveError) as caught:
        _unpack(wheel, tmp_path / "folder")

    assert f"{name}: its name is not a plain path" in caught.value.why


def test_refuses_link(tmp_path: Path, wheel: Path) -> None:
    entry = zipfile.ZipInfo("pkg/link")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(entry, "/etc/passwd")

    with pytest.raises(UnsafeArchiveError, match="can't be unpacked safely"):
        _unpack(wheel, tmp_path / "folder")


def test_refuses_member_that_comes_twice(tmp_path: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("pkg/z.so", b"another")

    with pytest.raises(UnsafeArchiveError) as caught:
        _unpack(wheel, tmp_path / "folder")

    assert caught.value.why == "pkg/z.so: it is in the archive twice"


def test_refuses_damaged_archive(tmp_path: Path, wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes().replace(_FILES["pkg/__init__.py"], b"x = 2\n"))

    with pytest.raises(UnsafeArchiveError, match="is damaged"):
        _unpack(wheel, tmp_path / "folder")


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


def test_finds_record_sound(wheel: Path) -> None:
    assert _faults(wheel) == ()


@pytest.mark.parametrize(
    ("old", "new", "name", "fact"),
    [
        ("sha256=", "sha256=A", "pkg/z.so", "RECORD says its hash is sha256=A"),
        (",1\n", ",2\n", "pkg/z.so", "RECORD says its size is 2, it is 1"),
        ("pkg/z.so", "pkg/y.so", "pkg/y.so", "RECORD lists it and it isn't there"),
        ("pkg/z.so", "pkg/y.so", "pkg/z.so", "RECORD doesn't list it"),
        ("RECORD,,", "RECORD,sha256=x,", f"{_DIST_INFO}/RECORD", "hash or size of itself"),
        ("pkg/z.so", "pkg/run.sh", "pkg/run.sh", "RECORD lists it twice"),
    ],
)
def test_finds_fault_of_record(wheel: Path, old: str, new: str, name: str, fact: str) -> None:
    found = _faults(_with_record(wheel, old, new))

    assert any(name == file and fact in fault for file, fault in found)


def test_finds_all_faults_of_record(wheel: Path) -> None:
    found = _faults(_with_record(wheel, "sha256=", "sha256=A"))

    assert len(found) == 5  # every file but RECORD


def test_finds_missing_record(tmp_path: Path) -> None:
    path = tmp_path / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some-1.dist-info/WHEEL", b"")

    assert _faults(path) == (("some-1.dist-info/RECORD", "it is missing or empty"),)
