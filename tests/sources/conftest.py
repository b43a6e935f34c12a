"""Fixtures of the tests of sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.factories import make_workspace
from tests.support.sourced import make_project, make_sdist

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "run")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture
def sdist(project: Path) -> Path:
    return make_sdist(project)
