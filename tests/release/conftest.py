"""Fixtures of the tests of releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.released import Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A folder of wheels, without any."""
    made = Project(folder=tmp_path)
    made.dist.mkdir()
    return made
