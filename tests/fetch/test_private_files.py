"""Copies in place of links: what somebody writes into one file shows in no other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cuwheel.fetch.private_files import make_private

if TYPE_CHECKING:
    from pathlib import Path

_TIME = 1_700_000_000  # seconds since 1970


def test_gives_each_file_a_copy_of_its_own(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder" / "bin"
    kept.write_bytes(b"program")
    kept.chmod(0o755)
    os.utime(kept, (_TIME, _TIME))
    folder.mkdir(parents=True)
    (folder / "one").hardlink_to(kept)

    make_private(folder.parent)
    (folder / "one").write_bytes(b"changed")

    assert kept.read_bytes() == b"program"
    assert [path.name for path in folder.iterdir()] == ["one"]


def test_copies_mode_and_time(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    kept.write_bytes(b"program")
    kept.chmod(0o555)
    os.utime(kept, (_TIME, _TIME))
    folder.mkdir()
    (folder / "one").hardlink_to(kept)

    make_private(folder)

    made = (folder / "one").stat()
    assert (made.st_mode & 0o777, made.st_mtime, made.st_nlink) == (0o555, _TIME, 1)


def test_leaves_links_and_own_files(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("text")
    (tmp_path / "link").symlink_to("own")
    before = own.stat().st_ino

    make_private(tmp_path)

    assert (own.stat().st_ino, (tmp_path / "link").is_symlink()) == (before, True)
