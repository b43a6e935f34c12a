"""Fixtures of the tests of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.sources import make_project, make_sdist
from tests.support.factories import make_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "run")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.fixture
def sdist(project: Path) -> Path:
    return make_sdist(project)
