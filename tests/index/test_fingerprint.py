from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.index.fingerprint import fingerprint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site" / "a").mkdir(parents=True)
    (tmp_path / "site" / "a" / "page").write_text("1")
    return tmp_path / "site"


def test_stays_while_nothing_changes(folder: Path) -> None:
    assert fingerprint([folder], "x") == fingerprint([folder], "x")


def test_follows_what_else_decides(folder: Path) -> None:
    assert fingerprint([folder], "x", "y") != fingerprint([folder], "xy", "")


@pytest.mark.parametrize("change", ["content", "new", "gone", "renamed"])
def test_follows_files(change: str, folder: Path) -> None:
    before = fingerprint([folder])
    page = folder / "a" / "page"
    state = page.stat()
    if change == "content":
        page.write_text("2")
        os.utime(page, ns=(state.st_atime_ns, state.st_mtime_ns))
    elif change == "new":
        (folder / "b").touch()
    elif change == "gone":
        page.unlink()
    else:
        page.rename(folder / "page")

    assert fingerprint([folder]) != before


def test_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert fingerprint([tmp_path / "empty"]) == fingerprint([tmp_path / "nowhere"])
