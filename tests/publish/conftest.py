"""Fixtures of all rooms of this wing."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach the tests' own servers without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
