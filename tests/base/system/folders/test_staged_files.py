from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.folders import staged_files as module
from cuwheel.base.system.folders.staged_files import has_staged, remove_staged, staged_files

MANY = module._FEW + 1


def write(root: Path, count: int, content: bytes = b"new") -> None:
    with staged_files(root) as staged:
        for number in range(count):
            with staged.new_file(f"file{number}") as stream:
                stream.write(content)


@pytest.fixture
def fsyncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Files that were synced one by one."""
    numbers: list[int] = []
    monkeypatch.setattr(os, "fsync", numbers.append)
    return numbers


@pytest.mark.parametrize("count", [1, MANY])
def test_gives_all_their_names(count: int, tmp_path: Path) -> None:
    (tmp_path / "file0").write_text("old")

    write(tmp_path, count)

    names = {f"file{number}" for number in range(count)}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"new"}
    assert (tmp_path / "file0").stat().st_mode & 0o777 == 0o644


def test_nothing_has_a_name_before_all_are_complete(tmp_path: Path) -> None:
    with staged_files(tmp_path) as staged:
        with staged.new_file("a") as stream:
            stream.write(b"x")

        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").exists()


def test_changes_nothing_where_one_fails(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("count", "reports", "synced"),
    [(MANY, module._SYNCFS_REPORTS, 0), (2, module._SYNCFS_REPORTS, 2), (MANY, (999, 0), MANY)],
    ids=["many at once", "few one by one", "no reports of failures"],
)
def test_syncs_files(  # noqa: PLR0913 - two fixtures
    count: int,
    reports: tuple[int, int],
    synced: int,
    *,
    tmp_path: Path,
    fsyncs: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SYNCFS_REPORTS", reports)

    write(tmp_path, count)

    assert len(fsyncs) == synced


_KILLED = """
import os, pathlib, signal, sys
from cuwheel.base.system.folders.staged_files import staged_files
with staged_files(pathlib.Path(sys.argv[1])) as staged:
    with staged.new_file("a") as stream:
        stream.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_removes_leftovers_of_killed_writer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=env, check=False).returncode == -signal.SIGKILL
    assert has_staged(tmp_path)
    assert not (tmp_path / "a").exists()

    remove_staged(tmp_path)

    assert not list(tmp_path.iterdir())
