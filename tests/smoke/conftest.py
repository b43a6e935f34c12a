"""Fixtures of the load proof: what the stage finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.smoked import lock_text, target_of, workspace_of

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace


@pytest.fixture
def lock(shared_cache: Path) -> str:
    return lock_text(shared_cache)


@pytest.fixture
def workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    return workspace_of(tmp_path, shared_cache)


@pytest.fixture
def target(tmp_path: Path, lock: str) -> Target:
    return target_of(tmp_path, lock)
