"""A recipe bumped to a newer release: real archives in a folder, real locks from the index."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import RecipeError, SourceError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.build.drafts.updates.bump import Bump, BumpOptions, bump_recipe, print_bump
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from tests.support.build.drafts import Index
from tests.support.build.patched_sources import SETUP, changed
from tests.support.build.updates import Project, make_updated
from tests.support.factories import commit_all, make_workspace

_NEWER = b"more\n" + changed(20).replace(b"line 38\n", b"thirty-eight\n")


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index in a folder, in addition to the configured one."""
    index = Index(folder=tmp_path / "simple")
    monkeypatch.setenv("UV_INDEX", index.url)
    return index


@pytest.fixture
def bump(tmp_path: Path, shared_cache: Path) -> Callable[..., Bump | None]:
    """Bump the recipe of a project."""

    def run(project: Project, **options: object) -> Bump | None:
        request = BumpOptions(cooldown=7, **options)  # type: ignore[arg-type]
        return bump_recipe(project.entry, request, make_workspace(tmp_path, cache=shared_cache))

    return run


def test_question_of_a_draft_is_not_bumped_over(
    both: Index, tmp_path: Path, bump: Callable[..., Bump | None]
) -> None:
    project = make_updated(tmp_path, both, _NEWER, 5, 20)
    text = re.sub(r"requires=\(", 'requires=("?op_builder", ', project.recipe.read_text())
    project.recipe.write_text(text)

    with pytest.raises(RecipeError) as caught:
        bump(project, takes_uncommitted=True)

    assert "op_builder" in f"{caught.value.why}"
    assert project.recipe.read_text() == text


def test_changes_version_hash_patches_and_lock(
    both: Index,
    tmp_path: Path,
    bump: Callable[..., Bump | None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = make_updated(tmp_path, both, _NEWER, 5, 20)
    before = project.recipe.read_text()

    done = bump(project)

    recipe = project.entry.recipe
    assert done is not None
    assert recipe is not None
    assert (recipe.version, [patch.file for patch in recipe.patches]) == (
        "2.0",
        ["0005-change.patch"],
    )
    assert "# Where it comes from." in project.recipe.read_text()
    assert [path.name for path in project.patches.iterdir()] == ["0005-change.patch"]
    assert b"@@ -3,7 +3,7 @@" in (project.patches / "0005-change.patch").read_bytes()
    assert "build==" in (project.root / "envs" / "build" / "tiny_up.lock").read_text()
    assert len(before.splitlines()) - len(project.recipe.read_text().splitlines()) == 1
    assert bump(project) is None
    print_bump(done, is_trial=False)
    output = capsys.readouterr().out
    assert '-    version="1.0",\n+    version="2.0",\n' in output
    assert "+@@ -3,7 +3,7 @@" in output
    assert "envs/build/tiny_up.lock: new, " in output
    assert "tiny-up 1.0 → 2.0: 4 files changed" in output


def test_shows_change_without_making_it(
    both: Index,
    tmp_path: Path,
    bump: Callable[..., Bump | None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = make_updated(tmp_path, both, _NEWER, 20)
    before = project.files()

    done = bump(project, is_trial=True)

    assert project.files() == before
    assert done is not None
    print_bump(done, is_trial=True)
    output = capsys.readouterr().out
    assert '-    version="1.0",\n+    version="2.0",\n' in output
    assert "-from cuwheel import Link, Patch, Recipe" in output
    assert "0020-change.patch: obsolete: upstream has it" in output


def test_broken_patch_changes_nothing_unless_requested(
    both: Index, tmp_path: Path, bump: Callable[..., Bump | None]
) -> None:
    project = make_updated(tmp_path, both, _NEWER, 5, 38)
    before = project.files()

    with pytest.raises(SourceError) as caught:
        bump(project)

    assert "0038-change.patch: hunk 1 of setup.py" in caught.value.why
    assert project.files() == before
    assert bump(project, keeps_broken=True)
    assert project.entry.recipe is not None
    assert len(project.entry.recipe.patches) == 2


def test_takes_release_that_is_requested(
    both: Index, tmp_path: Path, bump: Callable[..., Bump | None]
) -> None:
    project = make_updated(tmp_path, both, SETUP)
    both.add_sdist("tiny-up", "3.0", {"setup.py": SETUP.decode()})

    done = bump(project, version="2.0", is_trial=True)

    assert done is not None
    assert done.version == "2.0"


def test_refuses_uncommitted_changes(
    both: Index, tmp_path: Path, bump: Callable[..., Bump | None]
) -> None:
    project = make_updated(tmp_path, both, SETUP)
    commit_all(project.root)
    project.recipe.write_text(f"{project.recipe.read_text()}# mine\n")

    with pytest.raises(UsageError) as caught:
        bump(project)

    assert "recipes/tiny_up.py" in caught.value.why
    assert bump(project, takes_uncommitted=True, is_trial=True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("cutensornet-sample", "Folder"), ("jaxmg", "GitCommit"), ("bitsandbytes", "Archive")],
)
def test_refuses_source_without_releases(name: str, kind: str, tmp_path: Path) -> None:
    entry = find_recipe(name, load_catalogue([ROOT]))

    with pytest.raises(UsageError) as caught:
        bump_recipe(entry, BumpOptions(cooldown=7), make_workspace(tmp_path))

    assert f"its source is {kind}(…)" in caught.value.why


@pytest.mark.e2e
def test_ctrl_c_leaves_all_as_it_was(both: Index, tmp_path: Path, shared_cache: Path) -> None:
    project = make_updated(tmp_path, both, _NEWER, 5, 20)
    before = project.files()
    variables = {
        **os.environ,
        "CUWHEEL_PROJECT": str(project.root),
        "CUWHEEL_CACHE": str(shared_cache),
    }

    with subprocess.Popen(
        [sys.executable, "-m", "cuwheel", "bump", "tiny-up"],
        cwd=ROOT,
        env=variables,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr
        line = child.stderr.readline()  # the lock is being resolved, the last step before
        time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        output = line + child.stderr.read()

    assert child.returncode == 130, output
    assert project.files() == before
