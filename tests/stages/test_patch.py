"""The copy that is patched, and which patches a recipe has to name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import PatchError
from cuwheel.model.source import Patch
from cuwheel.stages.patch import patch
from cuwheel.system.files import sha256_of_file, sha256_of_tree
from tests.support.factories import EPOCH, make_job, make_target
from tests.support.patched import (
    NAME,
    SETUP,
    Project,
    changed,
    make_diff,
    make_project,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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

    assert (tree.path / "setup.py").read_bytes() == SETUP
    assert tree.patches == ()


def test_records_digest_and_keeps_origin(project: Project, diff: Callable[..., bytes]) -> None:
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": changed(3)}))

    tree = project.apply()

    digest = sha256_of_file(project.root / "patches" / "tiny_cuda" / NAME)
    assert tree.patches == ((NAME, digest),)
    assert tree.origin == "here"


def test_leaves_source_and_can_run_again(project: Project, diff: Callable[..., bytes]) -> None:
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": changed(3)}))
    project.workspace.folder(".patched.killed")

    first, second = project.apply(), project.apply()

    assert first == second
    assert (project.tree / "setup.py").read_bytes() == SETUP
    assert sorted(path.name for path in project.workspace.work.iterdir()) == [
        "patched",
        "source",
        "stages",
    ]


def test_gives_patched_files_the_source_time(project: Project, diff: Callable[..., bytes]) -> None:
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": changed(3)}))

    tree = project.apply()

    assert {path.stat().st_mtime for path in (tree.path, *tree.path.rglob("*"))} == {EPOCH}


def test_names_missing_and_unnamed_patches(project: Project) -> None:
    project.write("0002-forgotten.patch", b"")

    with pytest.raises(PatchError) as caught:
        project.apply("0001-lost.patch")

    assert "the recipe names 0001-lost.patch, which doesn't exist" in caught.value.why
    assert "0002-forgotten.patch exists, but the recipe doesn't name it" in caught.value.why


def test_copies_source_without_patches(project: Project) -> None:
    tree = patch(make_job(make_target(root=project.root), project.workspace))

    assert sha256_of_tree(tree.path) == sha256_of_tree(project.tree)
