"""One environment for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.installed import Installing, uv_environment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def installing(tmp_path: Path) -> Installing:
    (tmp_path / "links").mkdir()
    return Installing(environment=uv_environment(tmp_path / "env"), folder=tmp_path)
