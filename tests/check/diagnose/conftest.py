"""Fixtures of the tests of `diagnose`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.check.diagnose import toolkits
from tests.support.check.environments import Env, make_driver, make_env


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a toolkit in the usual places."""
    monkeypatch.setattr(toolkits, "_ROOT", tmp_path)


@pytest.fixture(scope="module")
def driver(module_path: Path) -> Path:
    return make_driver(module_path / "driver")


@pytest.fixture
def env(tmp_path: Path) -> Env:
    return make_env(tmp_path)
