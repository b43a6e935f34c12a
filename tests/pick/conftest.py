"""An index with tiny wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.offered import Index
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        yield Index(folder=tmp_path, site=site)
