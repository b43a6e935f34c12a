"""The folder of a new environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.publish.stack.get import _new_folder


def test_refuses_folder_of_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    with _new_folder(folder):
        (folder / "pyvenv.cfg").touch()
        with pytest.raises(UsageError, match="exists already"), _new_folder(folder):
            pass

    assert (folder / "pyvenv.cfg").exists()


def test_failure_removes_only_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    with pytest.raises(KeyboardInterrupt), _new_folder(folder):
        raise KeyboardInterrupt
    assert not folder.exists()

    def replace_by_own() -> None:
        with _new_folder(folder):
            folder.rename(tmp_path / "moved")
            folder.mkdir()
            (folder / "thesis").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_by_own()

    assert (folder / "thesis").exists()
