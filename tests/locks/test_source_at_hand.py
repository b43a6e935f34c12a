"""What a source that is here asks of a lock that was just written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.locks.jobs import PypiLockSpec
from cuwheel.locks.source_at_hand import warn_of_source
from cuwheel.model.recipe import Smoke
from cuwheel.model.recipe_lock import lock_of
from cuwheel.model.source import Folder
from cuwheel.workspace.records import SourceTree
from cuwheel.workspace.serialization import to_json
from tests.support.factories import heard, make_recipe, make_workspace

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Literal

    from cuwheel.model.recipe import Recipe

_SOURCE = """
[build-system]
requires = ["setuptools>=77", "numpy"]
[project]
name = "tiny-cuda"
dependencies = ["einops>=0.8"]
"""


def said(folder: Path, recipe: Recipe, kind: Literal["build", "smoke"], lock: str) -> str:
    declared = lock_of(recipe, kind, 13, None)
    file = folder / declared.path
    file.parent.mkdir(parents=True)
    file.write_text(lock)
    spec = PypiLockSpec(name=declared.name, source=declared, lock=file, python="3.12")
    workspace = make_workspace(folder)
    warn_of_source([spec], workspace.console, work=folder / "work")
    return " ".join(heard(workspace).split())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "samples" / "tiny"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_SOURCE)
    return folder


@pytest.mark.usefixtures("tree")
def test_names_all_that_a_lock_lacks(tmp_path: Path) -> None:
    recipe = make_recipe(source=Folder(path="samples/tiny"))

    told = said(tmp_path, recipe, "build", "setuptools==80.0\n")

    assert ": numpy, einops>=0.8; add numpy, einops>=0.8 to `requires`" in told


@pytest.mark.usefixtures("tree")
def test_asks_each_lock_for_its_own(tmp_path: Path) -> None:
    smoke = Smoke(imports=("tiny_cuda",), requires=("einops",))
    recipe = make_recipe(source=Folder(path="samples/tiny"), smoke=smoke)

    assert said(tmp_path, recipe, "build", "setuptools==80.0\nnumpy==2.0\n") == ""


def test_finds_source_that_a_build_has_unpacked(tmp_path: Path, tree: Path) -> None:
    record = tmp_path / "work" / "tiny-cuda-130-cp312" / "stages" / "source.json"
    record.parent.mkdir(parents=True)
    unpacked = SourceTree(path=tree, origin="o", sha256="s", epoch=1, pinned=True)
    record.write_text(to_json(unpacked))

    assert "/tiny: einops>=0.8; " in said(
        tmp_path, make_recipe(), "build", "setuptools==80.0\nnumpy==2.0\n"
    )


def test_says_nothing_where_there_is_no_source(tmp_path: Path) -> None:
    assert said(tmp_path, make_recipe(), "build", "") == ""
