"""Requirements are reported before anything is compiled, all together, with their fix."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.engine import PACKAGES, Engine

_PREFLIGHT = 50  # exit status
_FIX = "in recipes/tiny_capi.py, then `nox -s lock -- build:tiny-capi`"


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., Path]:
    """Give tiny-capi with texts in its files replaced."""

    def make(**changes: tuple[str, str]) -> Path:
        tree = shutil.copytree(PACKAGES / "tiny_capi", tmp_path / "tiny_capi")
        for name, (old, new) in changes.items():
            [file] = tree.glob(f"{name}.*")
            assert old in file.read_text()
            file.write_text(file.read_text().replace(old, new))
        return tree

    return make


@pytest.mark.e2e
def test_names_all_that_the_source_states(package: Callable[..., Path], engine: Engine) -> None:
    tree = package(
        pyproject=("[project]\n", '[project]\ndependencies = ["einops>=0.8", "numpy"]\n')
    )

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == _PREFLIGHT
    assert "its source says that it requires einops>=0.8, numpy" in done.output
    assert f"add einops>=0.8, numpy to `requires` {_FIX}" in done.output


@pytest.mark.e2e
def test_names_all_that_only_the_backend_knows(
    package: Callable[..., Path], engine: Engine
) -> None:
    tree = package(
        pyproject=("[project]\n", '[project]\ndynamic = ["dependencies"]\n'),
        setup=("setup(\n", 'setup(\n    install_requires=["numpy", "ein" + "ops"],\n'),
    )

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == _PREFLIGHT
    assert "its backend says that it requires" in done.output
    assert f"to `requires` {_FIX}" in done.output
    assert "einops" in done.output
    assert "numpy" in done.output
    [log] = engine.work.rglob("backend.log")
    assert not log.with_name("build.log").exists()


@pytest.mark.e2e
def test_names_what_the_backend_also_needs(package: Callable[..., Path], engine: Engine) -> None:
    tree = package(setup=("setup(\n", 'setup(\n    setup_requires=["setuptools-scm>=8"],\n'))

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == _PREFLIGHT
    assert "the backend also requires setuptools-scm>=8" in done.output
    assert f"add setuptools-scm>=8 to `requires` {_FIX}" in done.output


@pytest.mark.e2e
def test_backend_leaves_the_source_as_it_was(built: Callable[[str], Engine]) -> None:
    work = built("tiny-capi").work

    [tree] = work.glob("*/tree/tiny_capi")
    assert not list(work.glob("*/tmp/backend"))
    assert (tree / "setup.py").read_text() == (PACKAGES / "tiny_capi" / "setup.py").read_text()
