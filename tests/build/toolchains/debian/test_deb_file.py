"""Debian packages, unpacked: real archives, sound and hostile."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError
from cuwheel.base.system.files import list_tree
from cuwheel.build.toolchains.debian.deb_file import Unpacking
from tests.support.toolchains.debian_archive import (
    Member,
    Toy,
    ar_of,
    deb_of,
    hard_link,
    link,
    tar_of,
)

FILE = Member(name="./usr/lib/libtoy.so.1", content=b"toy\n")
OTHER = Toy(name="other", members=(FILE,))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def unpack(root: Path, *debs: Toy | bytes, only: str = "") -> Unpacking:
    unpacking = Unpacking(
        folder=root,
        title="the toys",
        only=(lambda path: path.endswith(only)) if only else None,
    )
    for number, deb in enumerate(debs):
        file = root.parent / f"{number}.deb"
        file.write_bytes(deb_of(deb) if isinstance(deb, Toy) else deb)
        unpacking.add(file)
    return unpacking


def toy(*members: Member) -> Toy:
    return Toy(members=members)


def names(root: Path) -> list[str]:
    return [str(path) for path in list_tree(root)]


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
def test_unpacks_each_compression(root: Path, compression: str) -> None:
    unpack(root, deb_of(toy(FILE), compression=compression))

    assert (root / "usr/lib/libtoy.so.1").read_bytes() == b"toy\n"


@pytest.mark.parametrize(
    ("name", "target", "written"),
    [
        ("./usr/lib/libtoy.so", "libtoy.so.1", "libtoy.so.1"),
        ("./lib/libtoy.so", "/usr/lib/libtoy.so.1", "../usr/lib/libtoy.so.1"),
        ("./libtoy.so", "/usr/lib/libtoy.so.1", "usr/lib/libtoy.so.1"),
        ("./a/b/libtoy.so", "../../usr/lib/libtoy.so.1", "../../usr/lib/libtoy.so.1"),
    ],
)
def test_links_lead_to_files_of_the_folder(
    root: Path, name: str, target: str, written: str
) -> None:
    unpack(root, toy(FILE, link(name, target)))

    assert str((root / name).readlink()) == written
    assert (root / name).read_bytes() == b"toy\n"


def test_hard_link_is_the_file(root: Path) -> None:
    unpack(root, toy(FILE, hard_link("./usr/bin/toy", "./usr/lib/libtoy.so.1")))

    assert (root / "usr/bin/toy").read_bytes() == b"toy\n"


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1755, 0o755, 0o777])
def test_privileges_of_a_program_are_removed(root: Path, mode: int) -> None:
    unpack(root, toy(Member(name="./usr/bin/su", content=b"#!/bin/sh\n", mode=mode)))

    assert (root / "usr/bin/su").stat().st_mode & 0o7777 == 0o755


def test_packages_share_folders_and_equal_files(root: Path) -> None:
    shared = link("./usr/lib/libtoy.so", "libtoy.so.1")
    first = toy(Member(name="./usr", type=tarfile.DIRTYPE, mode=0o755), FILE, shared)
    second = Toy(name="other", members=(*first.members, Member(name="./usr/more")))

    unpack(root, first, second)

    assert names(root) == ["usr/lib/libtoy.so", "usr/lib/libtoy.so.1", "usr/more"]


def test_takes_only_what_is_chosen(root: Path) -> None:
    refused = Member(name="./dev/null", type=tarfile.CHRTYPE)

    unpack(root, toy(Member(name="./usr/large", content=b"x"), refused, FILE), only=".so.1")

    assert names(root) == ["usr/lib/libtoy.so.1"]


_HOSTILE = {
    "up": (toy(Member(name="./../outside")), "leaves the folder"),
    "up in the middle": (toy(Member(name="./usr/../../outside")), "leaves the folder"),
    "absolute": (toy(Member(name="/outside")), "an absolute name"),
    "link up": (toy(link("./usr/a", "../../outside")), "which leaves the folder"),
    "link up later": (toy(link("./usr/a", "b/../../../outside")), "which leaves the folder"),
    "absolute link up": (toy(link("./usr/a", "/../../outside")), "which leaves the folder"),
    "hard link out": (toy(hard_link("./a", "../outside")), "a hard link to ../outside"),
    "absolute hard link": (toy(hard_link("./a", "/etc/passwd")), "a hard link to /etc/passwd"),
    "hard link to a link": (
        toy(FILE, link("./a", "usr/lib/libtoy.so.1"), hard_link("./b", "./a")),
        "a hard link to a",
    ),
    "through a link": (toy(link("./usr/lib", "."), FILE), "usr/lib, a link to ."),
    "below a file": (toy(FILE, Member(name=f"{FILE.name}/x")), "usr/lib/libtoy.so.1, a file"),
    "device": (toy(Member(name="./dev/sda", type=tarfile.BLKTYPE)), "a device"),
    "terminal": (toy(Member(name="./dev/tty", type=tarfile.CHRTYPE)), "a device"),
    "FIFO": (toy(Member(name="./fifo", type=tarfile.FIFOTYPE)), "a FIFO"),
    "name that is no text": (toy(Member(name="./\udcff")), "utf-8"),
}


@pytest.mark.parametrize("kind", _HOSTILE)
def test_refuses_member(root: Path, kind: str) -> None:
    package, fact = _HOSTILE[kind]

    with pytest.raises(InstallError) as caught:
        unpack(root, package)

    assert fact in caught.value.why
    assert caught.value.what == "the toys could not be unpacked: 0.deb is refused"
    assert sorted(path.name for path in root.parent.iterdir()) == ["0.deb", "root"]


_CONTRADICTIONS = {
    "other content": (Member(name=FILE.name, content=b"other\n"), "differs from the file in"),
    "link over a file": (link(FILE.name, "x"), "a link to x, and a file in"),
    "folder over a file": (Member(name=FILE.name, type=tarfile.DIRTYPE), "a folder, and a file in"),
    "link over a folder": (link("./usr/lib", "../lib"), "a link to ../lib, and a folder"),
}


@pytest.mark.parametrize("kind", _CONTRADICTIONS)
def test_refuses_packages_that_contradict_each_other(root: Path, kind: str) -> None:
    member, fact = _CONTRADICTIONS[kind]

    with pytest.raises(InstallError) as caught:
        unpack(root, OTHER, toy(member))

    assert fact in caught.value.why
    assert (root / "usr/lib/libtoy.so.1").read_bytes() == b"toy\n"


def test_refuses_to_write_through_a_link_of_another_package(root: Path) -> None:
    linking = Toy(name="linking", members=(link("./usr/lib", "/"),))

    with pytest.raises(InstallError, match=r"1\.deb is refused") as caught:
        unpack(root, linking, toy(FILE))

    assert caught.value.why == "usr/lib/libtoy.so.1 is below usr/lib, a link to .. in 0.deb"


_SOUND = deb_of(toy(FILE))
_FORMAT = ("debian-binary", b"2.0\n")
_BROKEN = {
    "empty": (b"", "not a Debian package"),
    "a page": (b"<html>sign in</html>", "not a Debian package"),
    "another ar archive": (ar_of([("a.o", b"x")]), "not a Debian package of format 2."),
    "a later format": (ar_of([("debian-binary", b"3.0\n")]), "not a Debian package of format 2."),
    "without data": (ar_of([_FORMAT, ("control.tar.gz", b"")]), "has no data.tar"),
    "truncated in data": (_SOUND[:-20], "truncated: data.tar.xz"),
    "truncated in a header": (_SOUND[:100], "truncated"),
    "damaged header": (_SOUND.replace(b"`\n", b"xx"), "truncated or damaged"),
    "size that is no number": (_SOUND.replace(b"4         `", b"x         `"), "damaged"),
    "damaged data": (_SOUND[:-40] + b"\1" * 40, "truncated or damaged"),
    "unknown compression": (deb_of(toy(FILE), compression=".br"), "data.tar.br"),
    "data that is no tar": (ar_of([_FORMAT, ("data.tar", b"x" * 1024)]), "damaged"),
    "tar that breaks off": (
        ar_of([_FORMAT, ("data.tar", tar_of([FILE])[:600])]),
        "truncated or damaged",
    ),
    "damaged member": (
        ar_of([_FORMAT, ("data.tar", tar_of([FILE]) [:1024] + b"x" * 1024)]),
        "a member's header is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", _BROKEN)
def test_refuses_what_is_no_whole_package(root: Path, kind: str) -> None:
    content, fact = _BROKEN[kind]

    with pytest.raises(InstallError) as caught:
        unpack(root, content)

    assert fact in caught.value.why
