"""Fixtures of the pipeline's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.system import compilers
from cuwheel.build.pipeline import machine_checks
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import make_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine have no compilers and binutils."""
    folder = tmp_path / "usr" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(compilers, "SYSTEM_PATH", str(folder))
    monkeypatch.setattr(machine_checks, "SYSTEM_PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
