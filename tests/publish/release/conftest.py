"""Fixtures of the tests of releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.publish.releases import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A folder of wheels, without any."""
    result = Project(folder=tmp_path)
    result.dist.mkdir()
    return result
