"""Fixtures of the load proof: what the stage finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.smoke_tests import lock_text, target_of, workspace_of


@pytest.fixture
def lock(shared_cache: Path) -> str:
    return lock_text(shared_cache)


@pytest.fixture
def workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    return workspace_of(tmp_path, shared_cache)


@pytest.fixture
def target(tmp_path: Path, lock: str) -> Target:
    return target_of(tmp_path, lock)
