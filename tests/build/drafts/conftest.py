"""An index in a folder that is the only one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build.drafts import Index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    index = Index(folder=tmp_path / "simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    return index
