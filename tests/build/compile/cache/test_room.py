"""What builds leave in the compile cache: traps go, the oldest goes, and nothing elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.build.compile.cache.room import remove_oldest, remove_traps
from tests.support.machines.ordinary_user import as_ordinary_user, let_in


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's folder, with what a build would like to be gone."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis").write_bytes(b"x" * 100)
    os.utime(folder / "thesis", (1, 1))
    (folder / "link").symlink_to("/usr/bin")
    os.mkfifo(folder / "fifo")
    return folder


def test_removes_what_readers_would_wait_at(tmp_path: Path) -> None:
    """A build may have put it there; links to nowhere are ccache's locks, files its objects."""
    deep = tmp_path / "ccache" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "object").touch()
    (deep / "lock").symlink_to("host-1234")
    (deep / "link").symlink_to("/dev/zero")
    (deep / "relative").symlink_to("../../../fifo")
    os.mkfifo(deep / "fifo")
    os.mkfifo(tmp_path / "ccache" / "fifo")

    remove_traps(tmp_path)

    assert sorted(path.name for path in (tmp_path / "ccache").rglob("*") if not path.is_dir()) == [
        "lock",
        "object",
    ]


def test_removes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    for age in range(5):
        path = tmp_path / "00" / f"{age}.object"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (1000 - age, 1000 - age))

    remove_oldest(tmp_path, 250)

    assert sorted(path.stem for path in tmp_path.rglob("*.object")) == ["0", "1"]


def test_keeps_all_that_has_room(tmp_path: Path) -> None:
    (tmp_path / "object").write_bytes(b"x" * 100)

    remove_oldest(tmp_path, 100)
    remove_oldest(tmp_path / "nowhere", 0)

    assert (tmp_path / "object").exists()


@pytest.mark.parametrize("where", ["", "aa", "direct/aa"])
def test_removes_nothing_where_a_link_leads(tmp_path: Path, home: Path, where: str) -> None:
    cache = tmp_path / "package"
    link = cache / where
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(home)

    for folder in (cache, cache / "direct"):
        remove_traps(folder)
        remove_oldest(folder, 0)

    assert names(home) == ["fifo", "link", "thesis"]


def test_removes_nothing_in_a_folder_that_becomes_a_link(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build may exchange them while the engine looks."""
    inner = tmp_path / "package" / "aa"
    inner.mkdir(parents=True)
    (inner / "thesis").write_bytes(b"x" * 100)
    unlink = os.unlink

    def exchange(name: str, *, dir_fd: int) -> None:
        inner.rename(tmp_path / "aside")
        inner.symlink_to(home)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", exchange)
    remove_oldest(tmp_path / "package", 0)

    assert (home / "thesis").exists()
    assert not (tmp_path / "aside" / "thesis").exists()


def test_an_ordinary_users_build_removes_nothing_elsewhere(tmp_path: Path, home: Path) -> None:
    cache = tmp_path / "package"
    cache.mkdir()
    (cache / "aa").symlink_to(home)
    for folder in (home, cache):
        let_in(folder)
        folder.chmod(0o777)

    assert as_ordinary_user(lambda: remove_traps(cache)) == ""
    assert as_ordinary_user(lambda: remove_oldest(cache, 0)) == ""

    assert names(home) == ["fifo", "link", "thesis"]
