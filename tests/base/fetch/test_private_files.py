"""Copies in place of links: writing into one file changes no other."""

from __future__ import annotations

import os
from pathlib import Path

from cuwheel.base.fetch.private_files import make_private, shares_blocks

_TIME = 1_700_000_000  # seconds since 1970


def test_copies_content_mode_and_time(tmp_path: Path) -> None:
    original, folder = tmp_path / "original", tmp_path / "folder" / "bin"
    original.write_bytes(b"program")
    original.chmod(0o755)
    os.utime(original, (_TIME, _TIME))
    folder.mkdir(parents=True)
    (folder / "link").hardlink_to(original)

    make_private(folder.parent)

    status = (folder / "link").stat()
    assert (status.st_mode & 0o777, status.st_mtime, status.st_nlink) == (0o755, _TIME, 1)
    (folder / "link").write_bytes(b"changed")
    assert original.read_bytes() == b"program"
    assert [path.name for path in folder.iterdir()] == ["link"]


def test_links_to_a_twin_of_equal_mode_and_copies_others(tmp_path: Path) -> None:
    cached, elsewhere, folder = (tmp_path / name for name in ("cached", "elsewhere", "folder"))
    for path in (cached, elsewhere, folder / "sub"):
        path.mkdir(parents=True)
    names = ("equal", "other-mode", "gone")
    for name in names:
        (cached / name).write_text(name)
        (folder / "sub" / name).hardlink_to(cached / name)
    for name in names[:2]:
        (elsewhere / name).write_text(name)
    (elsewhere / "other-mode").chmod(0o755)

    make_private(folder, {f"sub/{name}": elsewhere / name for name in names})

    same = [(folder / "sub" / name).samefile(cached / name) for name in names]
    assert same == [False] * 3
    is_linked = (folder / "sub/equal").samefile(elsewhere / "equal")
    assert is_linked or shares_blocks(tmp_path)
    assert [(folder / "sub" / name).read_text() for name in names] == [*names]
    assert sorted(path.name for path in (folder / "sub").iterdir()) == sorted(names)
    assert not (folder / "sub/other-mode").samefile(elsewhere / "other-mode")


def test_leaves_links_and_own_files(tmp_path: Path) -> None:
    plain = tmp_path / "own"
    plain.write_text("text")
    (tmp_path / "link").symlink_to("own")
    before = plain.stat().st_ino

    make_private(tmp_path)

    assert (plain.stat().st_ino, (tmp_path / "link").is_symlink()) == (before, True)
