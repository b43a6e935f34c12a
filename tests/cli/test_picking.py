"""What `pick` and `get` take as packages and files, before any index is queried."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command


@pytest.mark.parametrize("command", ["pick", "get"])
def test_missing_file_is_no_package(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=r"gone\.toml doesn't exist"):
        run_command(command, ["packaging", "gone.toml"], Console())


def test_lock_is_written_into_a_folder_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["packaging", "six", f"--index={tmp_path}", "--lock", "gone/pylock.toml"]

    with pytest.raises(UsageError, match="gone doesn't exist"):
        run_command("pick", words, Console())

    assert not (tmp_path / "gone").exists()


def test_indexes_that_do_not_answer_are_no_lack_of_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["packaging", "six", "--index", "http://127.0.0.1:9/simple/"]

    with pytest.raises(DownloadError, match="no index could be queried"):
        run_command("pick", words, Console())
