"""Fixtures of the tests of `diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts import installed_toolkits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a toolkit in the usual places."""
    monkeypatch.setattr(installed_toolkits, "_LOCAL", tmp_path / "local")
    monkeypatch.setattr(installed_toolkits, "_DISTRIBUTIONS", tmp_path / "usr" / "bin" / "nvcc")
