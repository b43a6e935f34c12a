"""Inputs that a statement names, compared with a checkout; its recipes may only declare."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import NotReproducibleError, RecipeError, UsageError
from cuwheel.base.formats.wheel.provenance import Material
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.pipeline.rebuild_key import digest_of_engine
from cuwheel.build.recipe.platform import PLATFORMS
from cuwheel.publish.rebuild.inputs import (
    check_is_enough,
    differing_inputs,
    keep_declarations,
    refuse_other_inputs,
    target_of,
    why_not_plain,
)
from cuwheel.publish.rebuild.published import PublishedWheel, read_published
from tests.support.publish.published_wheels import PARAMETERS, publish

_FILES = {
    "recipe recipes/causal_conv1d.py": "recipes/causal_conv1d.py",
    "lock build/causal_conv1d.lock": "envs/build/causal_conv1d.lock",
    "lock cuda130/pypi.lock": "envs/cuda130/pypi.lock",
    "lock envs/engine.lock": "envs/engine.lock",
    "patch 0001-x.patch": "patches/causal_conv1d/0001-x.patch",
    "smoke causal_conv1d.py": "recipes/smoke/causal_conv1d.py",
}
_COMMIT = "c" * 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def make_project(folder: Path) -> Path:
    for path in _FILES.values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


def materials_of(project: Path) -> tuple[Material, ...]:
    """What a build states that had the files of a project, and this cuwheel."""
    make_project(project)
    return (
        *(
            Material(name=name, sha256=sha256_of_file(project / path))
            for name, path in _FILES.items()
        ),
        Material(name="cuwheel", sha256=digest_of_engine()),
        Material(name="checkout of cuwheel", git_commit=_COMMIT),
        Material(name="source x.tar.gz", sha256="b" * 64),
    )


def published(folder: Path, project: Path, **changes: Any) -> PublishedWheel:
    """A wheel that was built with the files of a project, and this cuwheel."""
    return read_published(publish(folder, **{"materials": materials_of(project), **changes}))


def test_finds_everything_as_it_was(project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)

    check_is_enough(theirs, None, None)
    assert (target_of(theirs), theirs.commit) == ("causal-conv1d-130", _COMMIT)
    assert differing_inputs(theirs, ROOT, (project, ROOT)) == ()


@pytest.mark.parametrize("path", _FILES.values())
def test_names_the_file_that_is_another(path: str, project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)
    (project / path).write_text("changed")
    [changed] = differing_inputs(theirs, ROOT, (project,))
    (project / path).unlink()
    [missing] = differing_inputs(theirs, ROOT, (project,))

    assert changed.startswith(f"{path}: ")
    assert changed.endswith(" here")
    assert missing.endswith("there, nothing here")


def test_names_other_code_of_cuwheel(project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)
    (tmp_path / "cuwheel/build/pipeline").mkdir(parents=True)
    (tmp_path / "cuwheel/build/pipeline/pipeline.py").write_text("")

    [line] = differing_inputs(theirs, tmp_path, (project,))

    assert line.startswith(f"cuwheel's code: {digest_of_engine()[:16]} there")


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"materials": ()}, "the hash of its recipe, the hash of its lock, the hash of cuwheel's"),
        ({"parameters": PARAMETERS[:2]}, "the parameter python"),
    ],
)
def test_refuses_statement_that_is_not_enough(
    changes: dict[str, Any], missing: str, project: Path, tmp_path: Path
) -> None:
    theirs = published(tmp_path, project, **changes)

    with pytest.raises(UsageError) as caught:
        check_is_enough(theirs, None, None)

    assert missing in caught.value.why


def test_source_that_was_given_has_to_be_given(project: Path, tmp_path: Path) -> None:
    given = (*PARAMETERS, ("source", "given with --source"))
    theirs = published(tmp_path, project, parameters=given)

    check_is_enough(theirs, tmp_path, None)
    with pytest.raises(UsageError) as caught:
        check_is_enough(theirs, None, None)

    assert "--source DIR" in caught.value.fix


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("commit 0123456789ab, unchanged", "(commit 0123456789ab, unchanged)"),
        ("commit 0123456789ab, 1 file changed: setup.py", "no commit alone has these files"),
        ("a folder, not under version control", "no commit alone has these files"),
    ],
)
def test_shows_whether_a_commit_has_the_given_source(
    state: str, words: str, project: Path, tmp_path: Path
) -> None:
    given = (*PARAMETERS, ("source", "given with --source"))
    source = Material(name="source tiny", sha256="b" * 64, version=state)
    materials = (*materials_of(project)[:-1], source)
    theirs = published(tmp_path, project, parameters=given, materials=materials)

    with pytest.raises(UsageError) as caught:
        check_is_enough(theirs, None, None)

    assert words in caught.value.why


def test_refusal_names_files_and_remote(project: Path, tmp_path: Path) -> None:
    theirs = published(tmp_path, project)

    refuse_other_inputs(theirs, (), "")
    with pytest.raises(NotReproducibleError) as caught:
        refuse_other_inputs(theirs, ("a: 1 there, 2 here",), "no commit has it")

    assert caught.value.why == "a: 1 there, 2 here\nno commit has it"
    assert "--remote" in caught.value.fix


def test_refuses_commit_that_would_be_an_option(project: Path, tmp_path: Path) -> None:
    bad = (Material(name="checkout of cuwheel", git_commit="--upload-pack=x"),)

    with pytest.raises(UsageError) as caught:
        published(tmp_path, project, materials=bad)

    assert "its checkout is '--upload-pack=x'" in caught.value.why


def test_wheel_for_another_machine_needs_its_root(project: Path, tmp_path: Path) -> None:
    other = next(one for one in PLATFORMS.values() if one.is_foreign)
    stated = (*PARAMETERS, ("platform", other.name))
    theirs = published(tmp_path, project, parameters=stated)

    check_is_enough(theirs, None, tmp_path)
    with pytest.raises(UsageError, match=f"is for {other.machine}") as caught:
        check_is_enough(theirs, None, None)

    assert "--target-root DIR" in caught.value.fix


_IMPORT = "from cuwheel import GIB, CMake, Link, Recipe, Sdist, Smoke\n"
PLAIN = sorted((ROOT / "recipes").glob("*.py"))


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_our_recipes_only_declare(path: Path) -> None:
    assert why_not_plain(path) == ""


@pytest.mark.parametrize(
    "text",
    [
        "import os\nRECIPE = Recipe(name='x')",
        "from cuwheel.base.system.process import run\nRECIPE = run(['touch', 'x'])",
        "from cuwheel import *\nRECIPE = Recipe()",
        "from cuwheel.base import paths\nRECIPE = Recipe()",
        "from cuwheel import Recipe as open\nRECIPE = open('/x', 'w')",
        "from . import x",
        f"{_IMPORT}RECIPE = Recipe(name=open('/x', 'w'))",
        f"{_IMPORT}RECIPE = Recipe(name=__import__('os').system('x'))",
        f"{_IMPORT}RECIPE = Recipe(name=Recipe.__init__.__globals__)",
        f"{_IMPORT}Recipe = exec\nRECIPE = Recipe('x')",
        f"{_IMPORT}run = exec\nRECIPE = Recipe(name='x')",
        f"{_IMPORT}RECIPE = [one for one in (1,)]",
        f"{_IMPORT}RECIPE = Recipe(name=(lambda: 1)())",
        f"{_IMPORT}RECIPE = (x := Recipe)('y')",
        f"{_IMPORT}RECIPE = Recipe(name=f'{{open(1)}}')",
        f"{_IMPORT}GIB[0] = exec",
        f"{_IMPORT}def f(): pass",
        f"{_IMPORT}@exec\nclass X: pass",
        f"{_IMPORT}if True: exec('x')",
        f"{_IMPORT}RECIPE: exec('x') = Recipe()",
        f"{_IMPORT}print('x')",
        f"{_IMPORT}__builtins__ = {{}}\n__builtins__['x']",
        "(" * 5000,
        "\0",
    ],
)
def test_refuses_what_does_more(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(text)

    assert why_not_plain(path) != ""


def test_removes_the_other_recipes_and_refuses_the_one_that_is_built(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    shutil.copytree(ROOT / "recipes", folder)
    (folder / "evil.py").write_text("import os\nRECIPE = 1\n")
    (folder / "linked.py").symlink_to(ROOT / "noxfile.py")

    keep_declarations("recipes/gsplat.py", tmp_path, [tmp_path, ROOT], "c")

    assert {path.name for path in folder.glob("*.py")} == {one.name for one in PLAIN}
    (folder / "evil.py").write_text("import os\nRECIPE = 1\n")
    with pytest.raises(RecipeError, match=r"recipes/evil\.py of commit c isn't run"):
        keep_declarations("recipes/evil.py", tmp_path, [tmp_path], "c")


def test_removes_nothing_behind_a_link(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "evil.py").write_text("import os\n")
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "recipes").symlink_to(own)

    with pytest.raises(RecipeError, match="recipes of commit c isn't run"):
        keep_declarations("recipes/x.py", tmp_path / "checkout", [tmp_path / "checkout"], "c")

    assert (own / "evil.py").exists()
