"""Archives made by hand, sound ones and those that would do harm."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.build.inputs.archives import unpack_archive

TIME = 1_700_000_000  # seconds since 1970


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    info.mtime = TIME
    info.size = 4 if kind == tarfile.REGTYPE else 0
    return info


SETUP = member("tiny-1.0/setup.py")


def write_tar(folder: Path, members: Iterable[tarfile.TarInfo], mode: str = "gz") -> Path:
    path = folder / f"tiny-1.0.tar.{mode}"
    with path.open("wb") as stream, tarfile.open(fileobj=stream, mode=f"w:{mode}") as tar:  # type: ignore[call-overload]
        for info in members:
            tar.addfile(info, io.BytesIO(b"text"))
    return path


def write_zip(folder: Path, names: Iterable[str], mode: int = 0o644) -> Path:
    path = folder / "tiny-1.0.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, date_time=(2023, 11, 14, 22, 13, 20))
            entry.external_attr = mode << 16
            archive.writestr(entry, "text")
    return path


def assert_refused(archive: Path, *words: str) -> None:
    final = archive.parent / "source"
    before = set(archive.parent.parent.rglob("*"))

    with pytest.raises(UnsafeArchiveError) as caught:
        unpack_archive(archive, final)

    assert all(word in f"{caught.value.what} {caught.value.why}" for word in words)
    assert set(archive.parent.parent.rglob("*")) == before


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zip"])
def test_unpacks_in_place_of_what_stood_there(kind: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "old").touch()
    is_zip = kind == "zip"
    archive = (
        write_zip(tmp_path, [SETUP.name], 0o755) if is_zip else write_tar(tmp_path, [SETUP], kind)
    )

    unpacked = unpack_archive(archive, tmp_path / "source")

    assert unpacked.top == tmp_path / "source" / "tiny-1.0"
    assert [path.name for path in (tmp_path / "source").iterdir()] == ["tiny-1.0"]
    assert (unpacked.top / "setup.py").read_text() == "text"
    assert bool((unpacked.top / "setup.py").stat().st_mode & stat.S_IXUSR) is is_zip


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_finds_newest_time(write: object, tmp_path: Path) -> None:
    old = member("tiny-1.0/old.py")
    old.mtime = 1_000_000_000
    archive = (
        write_tar(tmp_path, [SETUP, old])
        if write is write_tar
        else write_zip(tmp_path, ["tiny-1.0/setup.py"])
    )

    unpacked = unpack_archive(archive, tmp_path / "source")

    assert unpacked.newest == TIME


@pytest.mark.parametrize("is_tar", [True, False])
def test_refuses_folders_without_end(tmp_path: Path, *, is_tar: bool) -> None:
    name = "a/" * 1500 + "file"
    archive = write_tar(tmp_path, [member(name)]) if is_tar else write_zip(tmp_path, [name])

    assert_refused(archive, "a/a/…", "1501 folders deep")


def test_refuses_hard_link_before_its_file(tmp_path: Path) -> None:
    """Python's tarfile looks for the file on the disk, and then among those before the link."""
    archive = write_tar(tmp_path, [member("b", tarfile.LNKTYPE, "later"), member("later")])

    assert_refused(archive, "b: a hard link to later, which isn't a file before it")


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_refuses_program_with_rights_of_its_owner(mode: int, tmp_path: Path) -> None:
    program = member("tiny-1.0/program")
    program.mode = mode

    assert_refused(write_tar(tmp_path, [program]), "tiny-1.0/program: a setuid file")


def test_keeps_links_inside(tmp_path: Path) -> None:
    links = [
        member("docs/readme", tarfile.SYMTYPE, "../setup.py"),
        member("same.py", tarfile.LNKTYPE, "setup.py"),
    ]

    unpacked = unpack_archive(
        write_tar(tmp_path, [member("setup.py"), *links]), tmp_path / "source"
    )

    assert unpacked.top == tmp_path / "source"
    assert (unpacked.top / "docs" / "readme").read_text() == "text"
    assert (unpacked.top / "same.py").read_text() == "text"


@pytest.mark.parametrize(
    "bad",
    [
        [member("../evil")],
        [member("tiny-1.0/../../evil")],
        [member("/tmp/evil")],
        [member("tiny-1.0/evil", tarfile.SYMTYPE, "/etc/passwd")],
        [member("tiny-1.0/evil", tarfile.SYMTYPE, "../../outside")],
        [member("evil", tarfile.LNKTYPE, "/etc/passwd")],
        [member("evil", tarfile.LNKTYPE, "../outside")],
        [member("evil", tarfile.CHRTYPE)],
        [member("evil", tarfile.FIFOTYPE)],
        [member("a", tarfile.SYMTYPE, "."), member("a/evil")],
        [member("evil", tarfile.SYMTYPE, "tiny-1.0"), member("evil")],
        # Each step stays inside when read as text; on disk the second one climbs out.
        [member("b/c/up", tarfile.SYMTYPE, "../.."), member("evil", tarfile.SYMTYPE, "b/c/up/..")],
    ],
    ids=lambda members: f"{members[-1].name}-{members[-1].linkname}".replace("/", "|"),
)
def test_refuses_tar_that_leads_out(bad: list[tarfile.TarInfo], tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    archive = write_tar(tmp_path / "inner", [SETUP, *bad])

    assert_refused(archive, "evil")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *(("../evil", 0o644), ("/evil", 0o644), ("a/../../evil", 0o644)),
        ("tiny-1.0/evil", stat.S_IFLNK | 0o777),
    ],
)
def test_refuses_zip_that_leads_out(name: str, mode: int, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()

    assert_refused(write_zip(tmp_path / "inner", ["tiny-1.0/setup.py", name], mode), name)


@pytest.mark.parametrize("mode", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("part", [0.3, 0.9, 0.99])
def test_refuses_truncated_tar(mode: str, part: float, tmp_path: Path) -> None:
    archive = write_tar(tmp_path, [member(f"tiny-1.0/{number}") for number in range(300)], mode)
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * part)])

    assert_refused(archive, "truncated")


def _cut_zip(folder: Path) -> Path:
    archive = write_zip(folder, ["tiny-1.0/setup.py"])
    archive.write_bytes(archive.read_bytes()[:-10])
    return archive


def _wrong_checksum(folder: Path) -> Path:
    archive = write_tar(folder, [SETUP])
    content = bytearray(archive.read_bytes())
    content[-8] ^= 1  # of gzip's CRC32 (RFC 1952)
    archive.write_bytes(content)
    return archive


def _no_archive(folder: Path) -> Path:
    path = folder / "tiny-1.0.tar.gz"
    path.write_text("<html>not found</html>")
    return path


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (_cut_zip, ("truncated",)),
        (_wrong_checksum, ("damaged",)),
        (_no_archive, ("not an archive",)),
        (
            lambda folder: write_tar(folder, [member("a"), member("a/b")]),
            ("could not be unpacked",),
        ),
        (
            lambda folder: write_tar(folder, [member("../first"), member("/second")]),
            ("../first", "/second"),
        ),
    ],
    ids=["cut zip", "checksum", "no archive", "contradicting members", "two bad members"],
)
def test_refuses_what_is_damaged(
    write: Callable[[Path], Path], words: tuple[str, ...], tmp_path: Path
) -> None:
    assert_refused(write(tmp_path), *words)


def test_refuses_bomb(tmp_path: Path) -> None:
    archive = write_tar(tmp_path, [member(f"tiny-1.0/{number}") for number in range(100)])

    with pytest.raises(UnsafeArchiveError, match="too large"):
        unpack_archive(archive, tmp_path / "source", max_unpacked=399)

    assert not (tmp_path / "source").exists()


def test_refuses_python_without_safe_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter")

    assert_refused(write_tar(tmp_path, [SETUP]), "PEP 706")
