"""Fixtures of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.factories import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

from tests.support.compared import TEXT, rewritten


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    made = write_wheel(tmp_path / "made", {"pkg/data.txt": TEXT, "pkg/__init__.py": b"X = 1\n"})
    return rewritten(made, tmp_path / "first")
