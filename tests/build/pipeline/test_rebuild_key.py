"""The rebuild key, the reasons that follow from it, and changes while a wheel is built."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import InterpreterNotFoundError, NotReproducibleError, SandboxError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.pythons import own_python
from cuwheel.build.pipeline.rebuild_key import (
    changes,
    check_project_state,
    digest_of_key,
    key_of,
    read_project_state,
)
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Framework, Smoke
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Patch, Resource
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import make_job, make_target, make_workspace
from tests.support.packages.foreign_platform import write_root

_PATCHES = (Patch(file="0001-x.patch", why="y"),)


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


# A change of a target or of one of its files, and the part of the key that it changes.
_CHANGES: dict[str, tuple[dict[str, Any] | str, str]] = {
    "archs": ({"archs": ("80",)}, "archs"),
    "provider": ({"provider": "system"}, "lock toolchain"),
    "the recipe's own source": ({"source_override": None}, "source"),
    "a field of the recipe": ({"max_wheel_size": 1}, "recipe.max_wheel_size"),
    "lock": ("envs/build/tiny_cuda.lock", "lock build"),
    "patch": ("patches/tiny_cuda/0001-x.patch", "patch 0001-x.patch"),
    "smoke test": ("recipes/smoke/tiny_cuda.py", "smoke tiny_cuda.py"),
    "source": ("source/setup.py", "source"),
}


@pytest.mark.parametrize(("change", "named"), _CHANGES.values(), ids=_CHANGES)
def test_names_what_changed(
    target: Target, workspace: Workspace, change: dict[str, Any] | str, named: str
) -> None:
    before = key_of(make_job(target, workspace))
    assert key_of(make_job(target, workspace)) == before
    if isinstance(change, str):
        (target.root / change).write_text("new")
    elif "max_wheel_size" in change:
        target = replace(target, recipe=replace(target.recipe, **change))
    else:
        target = replace(target, **change)

    after = key_of(make_job(target, workspace))

    assert named in [line.split(":")[0] for line in changes(before, after)]
    assert digest_of_key(before) != digest_of_key(after)


@pytest.mark.parametrize("kind", ["auto", "none", "bubblewrap", "unshare"])
def test_kind_of_sandbox_makes_no_difference(
    kind: str, target: Target, workspace: Workspace
) -> None:
    sandbox = key_of(make_job(target, workspace, sandbox=kind))["sandbox"]

    try:
        assert sandbox == ("no" if choose_sandbox(kind) == "none" else "yes")
    except SandboxError:
        assert sandbox == "absent"


def test_sees_other_python_and_compiler(
    target: Target, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of(make_job(target, workspace))
    monkeypatch.setenv("CXX", "/nowhere/g++")

    missing = InterpreterNotFoundError("none", why="gone")
    compiler, python = changes(before, key_of(make_job(target, workspace, python=missing)))

    assert compiler.startswith("host compiler: /usr/bin/g++ ")
    assert python == f"python: {before['python']} -> absent"


def test_holds_no_password_of_an_address(target: Target, workspace: Workspace) -> None:
    """It is written to `dist/`, which is served."""
    archive = Archive(url="https://me:geheim@a.invalid/x.zip?token=geheim", sha256="0" * 64)
    commit = GitCommit(repository="https://geheim@a.invalid/x", commit="0" * 40)
    resources = tuple(
        Resource(name=name, source=source, to=name, why="a test")
        for name, source in (("one", archive), ("two", commit))
    )
    recipe = replace(target.recipe, source=archive, resources=resources)

    key = key_of(make_job(replace(target, recipe=recipe), workspace))

    assert "https://a.invalid/x.zip" in key["recipe.source"]
    assert "geheim" not in str(key)


def test_does_not_care_where_project_lies(target: Target, workspace: Workspace) -> None:
    moved = target.root.with_name("moved")
    old, new = (
        make_target(root=root, source=Folder(path="source")) for root in (target.root, moved)
    )
    before = key_of(make_job(old, workspace))

    target.root.rename(moved)

    assert changes(before, key_of(make_job(new, workspace))) == ()


def test_holds_everything_that_decides(target: Target, workspace: Workspace) -> None:
    named = set(key_of(make_job(target, workspace)))

    silent = {"cxx_standard", "held_back", "never_built", "references", "upstream_tests"}
    declared = {field.name for field in fields(target.recipe)} - silent
    assert named >= {f"recipe.{name}" for name in declared}
    assert named >= {"engine", "linker", "strip", "lock engine", "sandbox", "host compiler"}


def test_holds_the_standard_that_applies(target: Target, workspace: Workspace) -> None:
    standards = {"torch>=2.14": "20"}
    keys = []
    for version in ("2.13.0", "2.14.1"):
        torch = Framework(name="torch", version=version)
        recipe = replace(target.recipe, cxx_standard=standards)
        changed = replace(target, recipe=recipe, framework=torch)
        keys.append(key_of(make_job(changed, workspace)).get("C++ standard"))

    assert keys == [None, "20"]


def test_knows_the_c_library_that_a_build_links_against(
    target: Target, workspace: Workspace
) -> None:
    key = key_of(make_job(target, workspace))

    assert key["C library"] == os.confstr("CS_GNU_LIBC_VERSION")


def test_sees_another_machines_root(target: Target, workspace: Workspace, tmp_path: Path) -> None:
    job = make_job(target, workspace)
    keys = []
    for fingerprint in ("a", "b"):
        root = replace(write_root(tmp_path / "root"), fingerprint=fingerprint)
        machine = replace(job.machine, target_root=root)
        keys.append(key_of(replace(job, machine=machine)))

    assert changes(*keys) == ("target root: a -> b",)


A, B = "a1" * 32, "b2" * 32


@pytest.mark.parametrize(
    ("name", "old", "new", "difference"),
    [
        ("lock build", A, B, "the lock has changed"),
        ("patch 0001-x.patch", A, B, "the file has changed"),
        ("patch 0001-x.patch", "absent", A, "absent -> a1a1a1a1a1a1"),
        ("archs", "80 90", "90", "80 90 -> 90"),
        ("engine", f"0.1.0 {A}", f"0.1.0 {B}", "cuwheel's own code has changed"),
        ("engine", f"0.1.0 {A}", f"0.2.0 {B}", "cuwheel 0.1.0 -> 0.2.0"),
        (
            "recipe.source",
            f"Sdist(sha256='{A}')",
            f"Sdist(sha256='{B}')",
            "Sdist(sha256='a1a1a1a1a1a1') -> Sdist(sha256='b2b2b2b2b2b2')",
        ),
        ("source", f"/src/x {A}", f"/src/x {B}", "/src/x has different content"),
        ("source", A, B, "the recipe names a different one, a1a1a1a1a1a1 -> b2b2b2b2b2b2"),
        (
            "source",
            f"x-1.0.tar.gz {A}",
            f"x-1.1.tar.gz {B}",
            "x-1.1.tar.gz, given with --source, instead of x-1.0.tar.gz",
        ),
        ("source", A, f"/x {B}", "/x, given with --source, instead of what the recipe pins"),
        ("source", f"/x {A}", B, "what the recipe pins, instead of /x"),
    ],
)
def test_describes_difference(name: str, old: str, new: str, difference: str) -> None:
    [line] = changes({name: old}, {name: new})

    assert line == f"{name}: {difference}"
    assert not re.search(r"[0-9a-f]{13}", line)


_PYTHON = '#!/bin/sh\n{python} "$@" | sed "s/{version}/{shown}/g"\n'


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job with a project and a Python of its own."""
    root = tmp_path / "project"
    shutil.copytree(ROOT / "tests" / "project", root)
    recipe = find_recipe("tiny-skbuild", load_catalogue([root])).recipe
    assert recipe
    path = tmp_path / "python"
    write_python(path, own_python().version)
    python = replace(own_python(), path=path)
    target = replace(make_target(root=root), recipe=recipe)
    return make_job(target, make_workspace(tmp_path), python=python)


def write_python(path: Path, version: str) -> None:
    real = own_python()
    path.write_text(_PYTHON.format(python=real.path, version=real.version, shown=version))
    path.chmod(0o755)


def python_of(job: Job) -> Path:
    assert job.machine.python
    return job.machine.python.path


_CHANGES_DURING_BUILD: dict[str, tuple[Callable[[Job], object], str]] = {
    "Python, upgraded": (lambda job: write_python(python_of(job), "3.99.9"), "Python"),
    "Python, removed": (lambda job: python_of(job).unlink(), "Python"),
    "lock, changed": (lambda job: job.target.lock.write_text("x==1"), "build/tiny_skbuild.lock"),
    "recipe, removed": (
        lambda job: (job.target.root / job.target.recipe.module).unlink(),
        "recipes/tiny_skbuild.py",
    ),
}


@pytest.mark.parametrize(
    ("change", "named"), _CHANGES_DURING_BUILD.values(), ids=_CHANGES_DURING_BUILD
)
def test_names_what_changed_while_the_wheel_was_built(
    change: Callable[[Job], object], named: str, job: Job
) -> None:
    before = read_project_state(job)
    check_project_state(before, job)

    change(job)

    with pytest.raises(NotReproducibleError, match=f": {named} changed while the wheel was built"):
        check_project_state(before, job)


def test_sees_provider_and_host_compiler(target: Target, workspace: Workspace) -> None:
    chosen = itertools.product(("pypi", "debian"), ("system", "gcc10", "gcc12"))

    keys = [
        digest_of_key(
            key_of(make_job(replace(target, provider=one, host_compiler=other), workspace))
        )
        for one, other in chosen
    ]

    assert len({*keys}) == len(keys)
