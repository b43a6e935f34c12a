"""One environment for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.publish.installations import Installing, uv_environment


@pytest.fixture
def installing(tmp_path: Path) -> Installing:
    (tmp_path / "links").mkdir()
    return Installing(environment=uv_environment(tmp_path / "env"), folder=tmp_path)
