from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.paths import ROOT
from cuwheel.wheel import staged_files as module
from cuwheel.wheel.staged_files import has_staged, remove_staged, staged_files

if TYPE_CHECKING:
    from pathlib import Path

MANY = module._FEW + 1


def write(root: Path, count: int, content: bytes = b"new") -> None:
    with staged_files(root) as staged:
        for number in range(count):
            with staged.new_file(f"file{number}") as stream:
                stream.write(content)


@pytest.fixture
def fsyncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files that were synced one by one."""
    found: list[int] = []
    monkeypatch.setattr(os, "fsync", found.append)
    return found


@pytest.mark.parametrize("count", [1, MANY])
def test_gives_all_their_names(count: int, tmp_path: Path) -> None:
    (tmp_path / "file0").write_text("old")

    write(tmp_path, count)

    assert {path.name for path in tmp_path.iterdir()} == {f"file{one}" for one in range(count)}
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"new"}
    assert (tmp_path / "file0").stat().st_mode & 0o777 == 0o644


def test_nothing_has_a_name_before_all_are_complete(tmp_path: Path) -> None:
    with staged_files(tmp_path) as staged:
        with staged.new_file("a") as stream:
            stream.write(b"x")

        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").exists()


def test_leaves_all_as_it_was_where_one_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def fail() -> None:
        with staged_files(tmp_path) as staged:
            with staged.new_file("a") as stream:
                stream.write(b"new")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()

    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_many_are_synced_by_one_call(tmp_path: Path, fsyncs: list[int]) -> None:
    write(tmp_path, MANY)

    assert len(fsyncs) == 0


def test_few_are_synced_without_the_rest_of_the_disk(tmp_path: Path, fsyncs: list[int]) -> None:
    write(tmp_path, 2)

    assert len(fsyncs) == 2


def test_each_is_synced_where_the_system_does_not_tell_of_failures(
    tmp_path: Path, fsyncs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SYNCFS_REPORTS", (999, 0))

    write(tmp_path, MANY)

    assert len(fsyncs) == MANY


_KILLED = """
import os, pathlib, signal, sys
from cuwheel.wheel.staged_files import staged_files
with staged_files(pathlib.Path(sys.argv[1])) as staged:
    with staged.new_file("a") as stream:
        stream.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=env, check=False).returncode == -signal.SIGKILL
    assert has_staged(tmp_path)
    assert not (tmp_path / "a").exists()

    remove_staged(tmp_path)

    assert not list(tmp_path.iterdir())
