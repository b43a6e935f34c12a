"""Which locks `lock`, `lock-check` and `lock-verify` take; tests/locks has the rest."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import LockError, UsageError
from cuwheel.paths import ROOT
from cuwheel.system.console import Console
from tests.support.documents import read_document

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = ROOT / "tests" / "project"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder of its own, beside the repository's recipes."""
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    monkeypatch.setenv("CUWHEEL_PROJECT", str(folder))
    return folder


@pytest.mark.usefixtures("project")
def test_every_lock_matches_its_input(capsys: pytest.CaptureFixture[str]) -> None:
    run_command("lock-check", [], Console())

    assert "locks match their inputs" in capsys.readouterr().err


def test_says_which_lock_was_edited(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = next((project / "envs" / "build").glob("*.lock"))
    lock.write_text(lock.read_text().replace("--hash=sha256:", "--hash=sha256:0", 1))

    with pytest.raises(LockError) as caught:
        run_command("lock-check", ["--json"], Console())

    assert caught.value.fix.startswith("nox -s lock -- build:")
    found = read_document(capsys.readouterr().out, "lock-check")
    faults = {one["lock"]: one["faults"] for one in found["locks"]}
    assert [name for name, found in faults.items() if found] == [str(lock)]


@pytest.mark.parametrize(
    "words",
    [
        ["lock", "engin"],
        ["lock", "dev", "--framework", "torch==2.11.0"],
        ["lock-verify", "999"],
    ],
)
def test_refuses_name_that_is_no_lock(words: list[str]) -> None:
    with pytest.raises(UsageError):
        run_command(words[0], words[1:], Console())
