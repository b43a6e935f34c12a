"""Requirements are told before anything is compiled, all together, with what to write."""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.engine import PACKAGES
from tests.support.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.engine import Engine

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
        (tree / "run").write_text(uuid.uuid4().hex)  # an earlier run's answers are kept
        return tree

    return make


def test_names_all_that_the_source_states(package: Callable[..., Path], engine: Engine) -> None:
    tree = package(
        pyproject=("[project]\n", '[project]\ndependencies = ["einops>=0.8", "numpy"]\n')
    )

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == _PREFLIGHT
    assert "its source says that it requires einops>=0.8, numpy" in done.output
    assert f"add einops>=0.8, numpy to `requires` {_FIX}" in done.output


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


def test_names_what_the_backend_needs_beside(package: Callable[..., Path], engine: Engine) -> None:
    tree = package(setup=("setup(\n", 'setup(\n    setup_requires=["setuptools-scm>=8"],\n'))

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == _PREFLIGHT
    assert "the backend also requires setuptools-scm>=8" in done.output
    assert f"add setuptools-scm>=8 to `requires` {_FIX}" in done.output


def test_asking_leaves_the_source_as_it_was(built: Callable[[str], Engine]) -> None:
    work = built("tiny-capi").work

    [tree] = work.glob("*/tree/tiny_capi")
    assert not list(work.glob("*/tmp/asked"))
    assert (tree / "setup.py").read_text() == (PACKAGES / "tiny_capi" / "setup.py").read_text()


def test_asks_the_backend_once_for_one_source(package: Callable[..., Path], engine: Engine) -> None:
    """It says on standard output when it is asked, into a log of its own."""
    require("sandbox", "that what a backend says is kept")
    tree = package(setup=("setup(\n", "print('asked')\nsetup(\n"))

    def was_asked() -> bool:
        done = engine.build("tiny-capi", "--source", str(tree), "--until", "build")
        assert done.status == 0, done.output
        log = next(engine.work.rglob("backend.log"), None)
        asked = log is not None and "asked" in log.read_text()
        shutil.rmtree(engine.work)
        return asked

    said = [was_asked(), was_asked()]
    (tree / "setup.py").write_text((tree / "setup.py").read_text() + "# another one\n")

    assert [*said, was_asked()] == [True, False, True]
