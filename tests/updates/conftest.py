"""An index in a folder that is the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.drafted import Index

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    made = Index(folder=tmp_path / "simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", made.url)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    return made
