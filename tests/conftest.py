"""Fixtures that more than one test module uses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.console import Console
from cuwheel.paths import ROOT, default_cache
from cuwheel.stages.toolchain import toolchain
from cuwheel.toolkits import toolkit_by_release
from cuwheel.workspace import Workspace
from tests.engine import Engine
from tests.factories import make_space

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="session")
def shared_cache() -> Path:
    """The user's own cache: what was downloaded once serves every later test run."""
    return default_cache()


@pytest.fixture(scope="session")
def cuda_home(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toolchain")
    space = Workspace(
        cache=shared_cache, work=folder / "work", dist=folder / "dist", console=Console()
    )
    return toolchain(toolkit_by_release("13.0"), "pypi", space).home


@pytest.fixture
def lean_space(tmp_path: Path, shared_cache: Path) -> Workspace:
    """A workspace with a cache of the test's own, but the downloads of the shared one."""
    made = make_space(tmp_path)
    made.cache.mkdir()
    (shared_cache / "uv").mkdir(parents=True, exist_ok=True)
    (made.cache / "uv").symlink_to(shared_cache / "uv")
    return made


@pytest.fixture
def engine(tmp_path: Path, shared_cache: Path) -> Engine:
    """The engine as nox starts it, with work and dist folders of this test."""
    return Engine(
        python=Path(sys.executable),
        cache=shared_cache,
        work=tmp_path / "work",
        dist=tmp_path / "dist",
        project=ROOT / "tests" / "project",
    )


@pytest.fixture(scope="session")
def built(
    tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, cuda_home: Path
) -> Callable[[str], Engine]:
    """Give an engine that has built the tiny package of this name, once for all tests."""
    assert cuda_home.is_dir()
    engines: dict[str, Engine] = {}

    def build(name: str) -> Engine:
        if name not in engines:
            folder = tmp_path_factory.mktemp(name)
            engines[name] = Engine(
                python=Path(sys.executable),
                cache=shared_cache,
                work=folder / "work",
                dist=folder / "dist",
                project=ROOT / "tests" / "project",
            )
            done = engines[name].build(name, "--keep-work")
            assert done.status == 0, done.output
        return engines[name]

    return build
