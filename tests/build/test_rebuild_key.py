from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.rebuild_key import changes, digest_of_key, key_of
from cuwheel.errors import InterpreterNotFoundError, SandboxError
from cuwheel.model.recipe import Smoke
from cuwheel.model.source import Archive, Folder, GitCommit, Patch, Resource
from cuwheel.sandbox.backends import choose_sandbox
from tests.support.factories import make_job, make_target, make_workspace
from tests.support.foreign import write_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace

_PATCHES = (Patch(file="0001-x.patch", why="y"),)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """A target with a lock, a patch and a source of its own."""
    for name in (
        "envs/build/tiny_cuda.lock",
        "patches/tiny_cuda/0001-x.patch",
        "recipes/smoke/tiny_cuda.py",
        "source/setup.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("old")
    smoke = Smoke(imports=("tiny_cuda",), script="tiny_cuda.py")
    source = tmp_path / "source"
    return make_target(root=tmp_path, patches=_PATCHES, smoke=smoke, source_override=source)


def other_recipe(target: Target) -> Target:
    recipe = dataclasses.replace(target.recipe, max_wheel_size=1)
    return dataclasses.replace(target, recipe=recipe)


def other_archs(target: Target) -> Target:
    return dataclasses.replace(target, archs=("80",))


def other_provider(target: Target) -> Target:
    return dataclasses.replace(target, provider="system")


def other_lock(target: Target) -> Target:
    target.lock.write_text("new")
    return target


def other_patch(target: Target) -> Target:
    (target.patch_folder / "0001-x.patch").write_text("new")
    return target


def other_smoke_script(target: Target) -> Target:
    (target.root / "recipes" / "smoke" / "tiny_cuda.py").write_text("new")
    return target


def other_source(target: Target) -> Target:
    (target.root / "source" / "setup.py").write_text("new")
    return target


def recipes_own_source(target: Target) -> Target:
    return dataclasses.replace(target, source_override=None)


def test_is_the_same_twice(target: Target, workspace: Workspace) -> None:
    assert digest_of_key(key_of(make_job(target, workspace))) == digest_of_key(
        key_of(make_job(target, workspace))
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_recipe, "recipe.max_wheel_size"),
        (other_archs, "archs"),
        (other_provider, "lock toolchain"),
        (other_lock, "lock build"),
        (other_patch, "patch 0001-x.patch"),
        (other_smoke_script, "smoke tiny_cuda.py"),
        (other_source, "source"),
        (recipes_own_source, "source"),
    ],
)
def test_names_what_changed(
    target: Target, workspace: Workspace, change: Callable[[Target], Target], named: str
) -> None:
    before = key_of(make_job(target, workspace))

    after = key_of(make_job(change(target), workspace))

    assert named in [line.split(":")[0] for line in changes(before, after)]
    assert digest_of_key(before) != digest_of_key(after)


def test_sees_other_python(target: Target, workspace: Workspace) -> None:
    before = key_of(make_job(target, workspace))

    after = key_of(make_job(target, workspace, python=InterpreterNotFoundError("none", why="gone")))

    assert changes(before, after) == (f"python: {before['python']} -> absent",)


def test_sees_that_there_is_no_sandbox(target: Target, workspace: Workspace) -> None:
    before = key_of(make_job(target, workspace, sandbox="none"))
    has_one = choose_sandbox() != "none"

    after = key_of(make_job(target, workspace))

    assert before["sandbox"] == "no"
    assert changes(before, after) == (("sandbox: no -> yes",) if has_one else ())


@pytest.mark.parametrize("kind", ["bubblewrap", "unshare"])
def test_kind_of_sandbox_makes_no_difference(
    kind: str, target: Target, workspace: Workspace
) -> None:
    asked = key_of(make_job(target, workspace, sandbox=kind))["sandbox"]

    assert asked in {"yes", "absent"}
    with contextlib.suppress(SandboxError):
        choose_sandbox(kind)
        assert asked == "yes"


def test_sees_other_compiler(
    target: Target, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of(make_job(target, workspace))

    monkeypatch.setenv("CXX", "/nowhere/g++")

    assert changes(before, key_of(make_job(target, workspace)))[0].startswith(
        "host compiler: /usr/bin/g++ "
    )


def test_sees_change_in_folder_of_project(target: Target, workspace: Workspace) -> None:
    own = make_target(root=target.root, source=Folder(path="source"))
    before = key_of(make_job(own, workspace))

    after = key_of(make_job(other_source(own), workspace))

    assert [line.split(":")[0] for line in changes(before, after)] == ["source"]


def test_holds_no_password_of_an_address(target: Target, workspace: Workspace) -> None:
    """It is written to `dist/`, which is served."""
    archive = Archive(url="https://me:geheim@a.invalid/x.zip?token=geheim", sha256="0" * 64)
    commit = GitCommit(repository="https://geheim@a.invalid/x", commit="0" * 40)
    resources = tuple(
        Resource(name=name, source=source, to=name, why="a test")
        for name, source in (("one", archive), ("two", commit))
    )
    recipe = dataclasses.replace(target.recipe, source=archive, resources=resources)

    key = key_of(make_job(dataclasses.replace(target, recipe=recipe), workspace))

    assert "https://a.invalid/x.zip" in key["recipe.source"]
    assert "geheim" not in str(key)


def test_does_not_care_where_project_lies(target: Target, workspace: Workspace) -> None:
    moved = target.root.with_name("moved")
    own = [make_target(root=root, source=Folder(path="source")) for root in (target.root, moved)]
    before = key_of(make_job(own[0], workspace))

    target.root.rename(moved)

    assert changes(before, key_of(make_job(own[1], workspace))) == ()


def test_marks_missing_folder_of_project(tmp_path: Path, workspace: Workspace) -> None:
    target = make_target(root=tmp_path, source=Folder(path="lost"))

    assert key_of(make_job(target, workspace))["source"] == "absent"


def test_holds_everything_that_decides(target: Target, workspace: Workspace) -> None:
    named = set(key_of(make_job(target, workspace)))

    silent = {"held_back", "never_built"}
    fields = {field.name for field in dataclasses.fields(target.recipe)} - silent
    assert named >= {f"recipe.{name}" for name in fields}
    assert named >= {"engine", "linker", "strip", "lock engine", "sandbox", "host compiler"}


def test_does_not_care_why_a_recipe_is_held_back(target: Target, workspace: Workspace) -> None:
    recipe = dataclasses.replace(target.recipe, held_back="for code that needs PyTorch 2.2")
    held_back = dataclasses.replace(target, recipe=recipe)

    assert key_of(make_job(held_back, workspace)) == key_of(make_job(target, workspace))


def test_knows_the_c_library_that_a_build_links_against(
    target: Target, workspace: Workspace
) -> None:
    key = key_of(make_job(target, workspace))

    assert key["C library"] == os.confstr("CS_GNU_LIBC_VERSION")


def test_says_nothing_about_equal_keys() -> None:
    assert changes({"a": "1"}, {"a": "1"}) == ()


def test_shortens_digests() -> None:
    assert changes({"a": "0" * 64}, {"b": "x"}) == ("a: 000000000000 -> absent", "b: absent -> x")


def test_sees_another_machines_root(target: Target, workspace: Workspace, tmp_path: Path) -> None:
    job = make_job(target, workspace)
    keys = []
    for fingerprint in ("a", "b"):
        root = dataclasses.replace(write_root(tmp_path / "root"), fingerprint=fingerprint)
        machine = dataclasses.replace(job.machine, target_root=root)
        keys.append(key_of(dataclasses.replace(job, machine=machine)))

    assert changes(*keys) == ("target root: a -> b",)
