"""The patched copy, and the patches that a recipe has to name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import SourceError
from cuwheel.base.system.files import sha256_of_file, sha256_of_tree
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.build.pipeline.stages.patch import patch
from cuwheel.build.recipe.source import Patch
from tests.support.build.patched_sources import (
    NAME,
    SETUP,
    Project,
    changed,
    make_diff,
    make_project,
)
from tests.support.factories import EPOCH, make_job, make_target


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


@pytest.fixture
def diff(tmp_path: Path) -> Callable[..., bytes]:
    return make_diff(tmp_path)


def test_applies_patches_in_recipe_order(project: Project) -> None:
    twice = SETUP.replace(b"line 3\n", b"twice\n")
    head = b"--- a/setup.py\n+++ b/setup.py\n@@ -3 +3 @@\n"
    project.write("0002-first.patch", head + b"-line 3\n+once\n")
    project.write("0001-second.patch", head + b"-once\n+twice\n")

    tree = project.apply("0002-first.patch", "0001-second.patch")

    assert (tree.path / "setup.py").read_bytes() == twice
    assert [name for name, _ in tree.patches] == ["0002-first.patch", "0001-second.patch"]


def test_applies_only_patches_of_the_toolkit(project: Project, diff: Callable[..., bytes]) -> None:
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": changed(3)}))
    other = Patch(file=NAME, why="a test", toolkits=("12.8",))
    target = make_target(root=project.root, toolkits=("12.8", "13.0"), patches=(other,))

    tree = patch(make_job(target, project.workspace))

    assert sha256_of_tree(tree.path) == sha256_of_tree(project.tree)
    assert tree.patches == ()


def test_leaves_source_and_can_run_again(project: Project, diff: Callable[..., bytes]) -> None:
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": changed(3)}))
    project.workspace.folder(".patched.killed.cuwheel-part")

    first, second = project.apply(), project.apply()

    digest = sha256_of_file(project.root / "patches" / "tiny_cuda" / NAME)
    names = sorted(path.name for path in project.workspace.work.iterdir())
    assert first == second
    assert (first.patches, first.origin) == (((NAME, digest),), "here")
    assert {path.stat().st_mtime for path in (first.path, *first.path.rglob("*"))} == {EPOCH}
    assert (project.tree / "setup.py").read_bytes() == SETUP
    assert names == [MARKER, "patched", "source", "stages"]


def test_names_missing_and_unnamed_patches(project: Project) -> None:
    project.write("0002-forgotten.patch", b"")

    with pytest.raises(SourceError) as caught:
        project.apply("0001-lost.patch")

    assert "the recipe names 0001-lost.patch, which doesn't exist" in caught.value.why
    assert "0002-forgotten.patch exists, but the recipe doesn't name it" in caught.value.why
