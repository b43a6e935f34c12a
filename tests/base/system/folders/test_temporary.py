"""Temporary folders are removed behind their block, and after a killed run."""

from __future__ import annotations

import ast
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from cuwheel.base.errors import FileAccessError
from cuwheel.base.paths import ROOT, is_script
from cuwheel.base.system.folders.temporary import temporary_folder

# These have other names, by which their own modules remove leftovers.
_OTHERS = {
    "base/system/folders/temporary",
    "base/system/files",
    "base/fetch/git",
    "bootstrap",
}
_MAKERS = {"TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp"}


def die_within(parent: Path) -> None:
    with temporary_folder(parent) as folder:
        (folder / "file").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_removes_leftovers_of_killed_run(tmp_path: Path) -> None:
    killed = multiprocessing.get_context("fork").Process(target=die_within, args=(tmp_path,))
    killed.start()
    killed.join()
    assert len(list(tmp_path.iterdir())) == 1

    with temporary_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]

    assert list(tmp_path.iterdir()) == []


def test_keeps_folders_of_another_run(tmp_path: Path) -> None:
    (tmp_path / "a-person's-own").mkdir()

    with temporary_folder(tmp_path) as first, temporary_folder(tmp_path) as second:
        assert sorted(tmp_path.iterdir()) == sorted((first, second, tmp_path / "a-person's-own"))


def test_reports_that_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/proc/none"])

    with pytest.raises(FileAccessError) as caught, temporary_folder():
        pass

    assert "TMPDIR" in caught.value.fix


def test_removes_nothing_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "cuwheel.tmp-link").symlink_to(tmp_path / "own")

    with temporary_folder(tmp_path):
        assert (tmp_path / "own").is_dir()


@pytest.mark.e2e
def test_temporary_folders_are_made_in_one_way() -> None:
    package = ROOT / "cuwheel"

    makers = {
        str(path.relative_to(package).with_suffix(""))
        for path in package.rglob("*.py")
        if not is_script(path)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in _MAKERS
        and isinstance(node.value, ast.Name)
        and node.value.id == "tempfile"
    }

    assert makers <= _OTHERS
