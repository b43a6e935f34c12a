"""Fixtures of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.factories import write_wheel
from tests.support.publish.wheel_pairs import TEXT, rewritten


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    result = write_wheel(tmp_path / "made", {"pkg/data.txt": TEXT, "pkg/__init__.py": b"X = 1\n"})
    return rewritten(result, tmp_path / "first")
