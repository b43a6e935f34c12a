"""conda-lock's environment, of its lock and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, LockError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.locks import tool_environment
from cuwheel.build.locks.tool_environment import tool_python
from cuwheel.build.workspace.workspace import Workspace


def test_holds_conda_lock_as_it_is_locked(conda_lock: Path) -> None:
    code = "from importlib.metadata import version; print(version('conda-lock'))"

    finished = process.run([conda_lock, "-I", "-c", code], env={})

    assert finished.output.strip() == pinned_version(ROOT / "envs" / "lock.lock", "conda-lock")


def test_engine_holds_no_conda_lock() -> None:
    with pytest.raises(ModuleNotFoundError):
        __import__("conda_lock")


def test_names_lock_that_is_missing(
    lean_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_environment, "ROOT", tmp_path)

    with pytest.raises(LockError) as caught:
        tool_python("conda-lock", lean_workspace)

    assert str(caught.value).startswith("error: envs/lock.lock is missing")
    assert caught.value.fix == "git checkout envs/lock.lock"


def test_leaves_nothing_when_it_cant_be_made(
    lean_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "envs" / "lock.lock"
    lock.parent.mkdir()
    lock.write_text(f"conda-lock==0.0.1 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(tool_environment, "ROOT", tmp_path)

    with pytest.raises(InstallError, match=r"the packages of lock\.lock could not be installed"):
        tool_python("conda-lock", lean_workspace)

    assert not list((lean_workspace.cache / "environments").glob("**/bin/python"))
