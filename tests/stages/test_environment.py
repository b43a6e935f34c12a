"""The build environment: exactly what the lock says, made once, made again when damaged."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.cache.contents import read_cache
from cuwheel.cache.pruning import prune
from cuwheel.errors import DamagedPackagesError, InstallError, LockError
from cuwheel.model.recipe import Framework
from cuwheel.pypi.lock_file import as_input, render
from cuwheel.pypi.uv import resolve
from cuwheel.stages.environment import environment
from cuwheel.system.files import remove_tree
from cuwheel.system.process import run
from tests.support.factories import heard, later, make_job, make_target, make_workspace

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _cached(workspace: Workspace) -> Path:
    """The module as the installer keeps it."""
    [found] = (workspace.cache / "uv").glob("archive-*/*/iniconfig/__init__.py")
    return found


def _change(module: Path) -> None:
    """As many bytes as before, and the old time."""
    before = module.stat()
    module.write_text("#" * before.st_size)
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "damage",
    [
        _change,
        lambda module: module.write_text(""),
        lambda module: module.with_name("planted.pth").write_text("import os\n"),
        lambda module: module.with_suffix(".pyc").write_bytes(b"planted"),
    ],
    ids=["changed", "emptied", "added", "compiled beside it"],
)
def test_what_was_changed_is_never_run(
    damage: Callable[[Path], object], target: Target, lean_workspace: Workspace
) -> None:
    first = environment(make_job(target, lean_workspace))
    site, text = first.site_packages, (first.site_packages / "iniconfig/__init__.py").read_text()
    there = set(site.rglob("*"))
    damage(site / "iniconfig" / "__init__.py")

    environment(make_job(target, later(lean_workspace)))

    assert "was damaged and is made again" in heard(lean_workspace)
    assert ((site / "iniconfig/__init__.py").read_text(), set(site.rglob("*"))) == (text, there)


def test_planted_bytecode_is_never_run(target: Target, lean_workspace: Workspace) -> None:
    """Python takes it for the module's where time and size in it are the source's."""
    first = environment(make_job(target, lean_workspace))
    source = first.site_packages / "iniconfig" / "__init__.py"
    before, text = source.stat(), source.read_text()
    source.write_text("raise SystemExit('planted')".ljust(before.st_size))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    run([first.python, "-m", "py_compile", source], env={})
    source.write_text(text)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    imports: list[str | Path] = [first.python, "-I", "-c", "import iniconfig; print('fine')"]
    assert "planted" in run(imports, env={}, check=False).output

    environment(make_job(target, later(lean_workspace)))

    assert run(imports, env={}).output == "fine\n"


def test_no_build_compiles_its_tools(tmp_path: Path, lean_workspace: Workspace) -> None:
    target = make_target(root=tmp_path / "project", requires=("pyproject-hooks==1.2.0",))
    _write_lock(target, lean_workspace)

    site = environment(make_job(target, lean_workspace)).site_packages

    there = {path: path.stat().st_ctime_ns for path in site.glob("pyproject_hooks/**/*.pyc")}
    assert {path.name.split(".")[0] for path in there} == {"__init__", "_impl", "_in_process"}
    environment(make_job(target, later(lean_workspace)))
    assert {path: path.stat().st_ctime_ns for path in there} == there


@pytest.mark.parametrize("damage", [_change, Path.unlink, lambda module: module.write_text("")])
def test_damaged_cache_is_filled_anew(
    damage: Callable[[Path], object], target: Target, tmp_path: Path
) -> None:
    """Of the installer, from which an environment was made or is made the first time."""
    workspace = make_workspace(tmp_path / "own")
    environment(make_job(target, workspace))
    cached = _cached(workspace)
    text = cached.read_text()
    damage(cached)
    remove_tree(workspace.cache / "environments")

    made = environment(make_job(target, later(workspace)))

    assert (made.site_packages / "iniconfig" / "__init__.py").read_text() == text
    assert "its files are downloaded again" in heard(workspace)


def test_file_that_was_put_into_the_cache_is_not_installed(target: Target, tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "own")
    environment(make_job(target, workspace))
    cached = _cached(workspace)
    (cached.parent.parent / "evil.pth").write_text("import sys\n")
    remove_tree(workspace.cache / "environments")

    made = environment(make_job(target, later(workspace)))

    assert not (made.site_packages / "evil.pth").exists()


def test_says_what_is_damaged_where_nothing_may_be_downloaded(
    target: Target, tmp_path: Path
) -> None:
    workspace = make_workspace(tmp_path / "own")
    environment(make_job(target, workspace))
    cached = _cached(workspace)
    cached.write_text("")
    remove_tree(workspace.cache / "environments")

    with pytest.raises(DamagedPackagesError, match=r"iniconfig/__init__\.py"):
        environment(make_job(target, later(workspace), offline=True))


def test_shares_no_file_with_the_cache(target: Target, lean_workspace: Workspace) -> None:
    """Who writes into a file with two names changes both."""
    made = environment(make_job(target, lean_workspace))

    files = [path for path in made.python.parent.parent.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_nlink for path in files if path.is_file()} == {1}


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
