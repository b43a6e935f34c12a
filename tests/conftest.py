"""Fixtures that more than one test module uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cuda_home() -> Path:
    return Path(os.environ["CUWHEEL_TEST_CUDA_HOME"])
