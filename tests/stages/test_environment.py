"""The build environment: exactly what the lock says, made once, made again when damaged."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.cache.contents import read_cache
from cuwheel.cache.pruning import prune
from cuwheel.errors import InstallError, LockError
from cuwheel.model.recipe import Framework
from cuwheel.pypi.lock_file import as_input, render
from cuwheel.pypi.uv import resolve
from cuwheel.stages.environment import environment
from cuwheel.system.process import run
from tests.support.factories import later, make_job, make_target

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace


@pytest.fixture
def target(tmp_path: Path, lean_workspace: Workspace) -> Target:
    """A target whose environment is one small pure package."""
    target = make_target(root=tmp_path / "project", requires=("iniconfig==2.1.0",))
    _write_lock(target, lean_workspace)
    return target


def test_holds_what_lock_says_and_nothing_else(target: Target, lean_workspace: Workspace) -> None:
    made = environment(make_job(target, lean_workspace))

    listed = {path.name.split("-")[0] for path in made.site_packages.glob("*.dist-info")}
    assert listed == {"iniconfig"}


def test_runs_target_python(target: Target, lean_workspace: Workspace) -> None:
    made = environment(make_job(target, lean_workspace))

    said = run([made.python, "-c", "import iniconfig; print('fine')"], env={"PATH": os.defpath})
    assert said.output == "fine\n"


def test_is_made_once(target: Target, lean_workspace: Workspace) -> None:
    first = environment(make_job(target, lean_workspace))
    born = first.python.lstat().st_mtime_ns

    again = environment(make_job(target, later(lean_workspace)))

    assert (again, again.python.lstat().st_mtime_ns) == (first, born)


def test_is_made_again_when_cut_off(target: Target, lean_workspace: Workspace) -> None:
    """What a kill in the middle leaves: files, but no marker."""
    first = environment(make_job(target, lean_workspace))
    (first.python.parent.parent / "cuwheel.json").unlink()
    (first.site_packages / "iniconfig" / "__init__.py").unlink()

    again = environment(make_job(target, later(lean_workspace)))

    assert (again.site_packages / "iniconfig" / "__init__.py").is_file()


def test_is_made_again_when_file_is_missing(target: Target, lean_workspace: Workspace) -> None:
    first = environment(make_job(target, lean_workspace))
    (first.site_packages / "iniconfig" / "__init__.py").unlink()

    again = environment(make_job(target, later(lean_workspace)))

    assert (again.site_packages / "iniconfig" / "__init__.py").is_file()


def test_one_command_looks_once(target: Target, lean_workspace: Workspace) -> None:
    first = environment(make_job(target, lean_workspace))
    (first.site_packages / "iniconfig" / "__init__.py").unlink()

    again = environment(make_job(target, lean_workspace))

    assert not (again.site_packages / "iniconfig" / "__init__.py").exists()


def test_nobody_removes_it_while_a_build_uses_it(target: Target, lean_workspace: Workspace) -> None:
    made = environment(make_job(target, lean_workspace))
    entries = read_cache(lean_workspace.cache).entries

    done = prune([one for one in entries if one.kind.folder == "environments"])

    assert made.python.parent.parent in [one.path for one in done.in_use]
    assert made.python.exists()


def test_refuses_lock_that_does_not_match_its_input(
    target: Target, lean_workspace: Workspace
) -> None:
    recipe = dataclasses.replace(target.recipe, requires=("iniconfig==2.0.0",))
    changed = dataclasses.replace(target, recipe=recipe)

    with pytest.raises(LockError) as caught:
        environment(make_job(changed, lean_workspace))

    assert caught.value.fix == "nox -s lock -- build:tiny-cuda"


def test_names_lock_command_for_other_framework(target: Target, lean_workspace: Workspace) -> None:
    """The recipe was locked with one release of its framework and another one is asked for."""
    asked = dataclasses.replace(target, framework=Framework(name="iniconfig", version="2.0.0"))

    with pytest.raises(LockError) as caught:
        environment(make_job(asked, lean_workspace))

    assert "--framework iniconfig==2.0.0" in caught.value.fix


def test_refuses_edited_hash(target: Target, lean_workspace: Workspace) -> None:
    lock = target.lock
    lines = lock.read_text().splitlines(keepends=True)
    body = "".join(line for line in lines if not line.startswith("#"))
    lock.write_text(render(_flip(body), input_text=_wanted(target), command="x", cooldown="y"))

    with pytest.raises(InstallError) as caught:
        environment(make_job(target, lean_workspace))

    assert "ash mismatch" in caught.value.why


def _flip(text: str) -> str:
    """Every hash with its first digit changed."""
    head, *rest = text.split("--hash=sha256:")
    turned = [("0" if part[0] != "0" else "1") + part[1:] for part in rest]
    return "--hash=sha256:".join([head, *turned])


def _wanted(target: Target) -> str:
    return as_input(target.locked_build.requirements)


def _write_lock(target: Target, lean_workspace: Workspace) -> None:
    """A lock for what the recipe declares; of what has to be in it, the frontend is left out."""
    asked = target.root / "asked.in"
    asked.parent.mkdir(parents=True)
    asked.write_text(as_input(target.recipe.requires))
    body = resolve(
        asked,
        python="3.10",
        uploaded_before="2026-11-14",
        cache=lean_workspace.cache,
        offline=False,
    )
    text = render(body, input_text=_wanted(target), command="nox -s lock", cooldown="2026-11-14")
    target.lock.parent.mkdir(parents=True)
    target.lock.write_text(text)
