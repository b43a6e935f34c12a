"""Copies in place of links: writing into one file changes no other."""

from __future__ import annotations

import os
from pathlib import Path

from cuwheel.base.fetch.private_files import make_private

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


def test_leaves_links_and_own_files(tmp_path: Path) -> None:
    plain = tmp_path / "own"
    plain.write_text("text")
    (tmp_path / "link").symlink_to("own")
    before = plain.stat().st_ino

    make_private(tmp_path)

    assert (plain.stat().st_ino, (tmp_path / "link").is_symlink()) == (before, True)
