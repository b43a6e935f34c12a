"""An index with tiny wheels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.check.audit import remote
from tests.support.check.offers import PAYLOAD, Index
from tests.support.servers.http import Site, serving


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(remote, "MOST", PAYLOAD // 8)  # these wheels stand for large ones
    with serving(Site()) as site:
        yield Index(folder=tmp_path, site=site)
