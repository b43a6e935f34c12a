"""The build environment: exactly the locked packages, made once, made again when damaged."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, LockError, ToolchainError
from cuwheel.base.fetch.private_files import shares_blocks
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.build.environments.lock_file import as_input, render
from cuwheel.build.environments.uv import resolve
from cuwheel.build.pipeline.stages.environment import environment
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.cache_contents import prune, read_cache
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import heard, later, make_job, make_target, make_workspace
from tests.support.requirements import require


@pytest.fixture
def target(tmp_path: Path, lean_workspace: Workspace) -> Target:
    """A target with one small pure package in its environment."""
    target = make_target(root=tmp_path / "project", requires=("iniconfig==2.1.0",))
    _write_lock(target, lean_workspace)
    return target


def test_holds_the_locked_packages_alone(target: Target, lean_workspace: Workspace) -> None:
    """No file has a second name in the cache: a write into it would change both."""
    env = environment(make_job(target, lean_workspace))

    listed = {path.name.split("-")[0] for path in env.site_packages.glob("*.dist-info")}
    finished = run([env.python, "-c", "import iniconfig; print('fine')"], env={"PATH": os.defpath})
    files = [path for path in env.python.parent.parent.rglob("*") if not path.is_symlink()]
    assert listed == {"iniconfig"}
    assert finished.output == "fine\n"
    assert {path.stat().st_nlink for path in files if path.is_file()} == {1}


def test_shares_no_file_with_the_cache(target: Target, lean_workspace: Workspace) -> None:
    """A write into a file with two names changes both."""
    env = environment(make_job(target, lean_workspace))

    files = [path for path in env.python.parent.parent.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_nlink for path in files if path.is_file()} == {1}


def test_locks_of_equal_pins_have_one_environment(
    target: Target, lean_workspace: Workspace, tmp_path: Path
) -> None:
    """Not their headers, comments and order count, nor pins that this Python doesn't install."""
    other = make_target(
        name="other", root=tmp_path / "other", requires=("iniconfig==2.1.0", "nothing==1")
    )
    pins = [line for line in target.lock.read_text().splitlines() if not line.startswith("#")]
    body = "\n".join(["nothing==1 ; python_version < '3' --hash=sha256:" + "0" * 64, "# x", *pins])
    text = render(body, input_text=_wanted(other), command="other", cooldown="2026-11-15")
    other.lock.parent.mkdir(parents=True)
    other.lock.write_text(text)

    first = environment(make_job(target, lean_workspace))
    second = environment(make_job(other, lean_workspace))

    assert second == first


@pytest.fixture
def pair(target: Target, lean_workspace: Workspace, tmp_path: Path) -> tuple[Target, Target]:
    """Two targets with one package in common, whose environments differ."""
    other = make_target(root=tmp_path / "other", requires=("iniconfig==2.1.0", "packaging==25.0"))
    _write_lock(other, lean_workspace)
    return target, other


_SETTLED = 1.1  # seconds after which a record trusts the time of a change


def test_environments_share_the_files_of_a_package(
    pair: tuple[Target, Target], lean_workspace: Workspace
) -> None:
    require("sandbox", "that environments share files, which only a sandbox keeps from builds")
    first = environment(make_job(pair[0], lean_workspace))
    time.sleep(_SETTLED)
    environment(make_job(pair[0], later(lean_workspace)))

    second = environment(make_job(pair[1], later(lean_workspace)))

    [mine, its] = [env.site_packages / "iniconfig" / "__init__.py" for env in (first, second)]
    assert mine.samefile(its) or shares_blocks(lean_workspace.cache)
    cached = (lean_workspace.cache / "uv").glob("archive-*/*/iniconfig/__init__.py")
    assert not any(path.samefile(its) for path in cached)
    assert not (second.site_packages / "packaging" / "__init__.py").stat().st_nlink > 1


def test_change_through_another_environment_is_found(
    pair: tuple[Target, Target], lean_workspace: Workspace
) -> None:
    require("sandbox", "that environments share files, which only a sandbox keeps from builds")
    first = environment(make_job(pair[0], lean_workspace))
    time.sleep(_SETTLED)
    environment(make_job(pair[0], later(lean_workspace)))
    second = environment(make_job(pair[1], later(lean_workspace)))
    text = (second.site_packages / "iniconfig/__init__.py").read_text()
    _change(first.site_packages / "iniconfig" / "__init__.py")

    for each in pair:
        environment(make_job(each, later(lean_workspace)))

    assert heard(lean_workspace).count("was damaged and is made again") == 2
    assert {
        (env.site_packages / "iniconfig/__init__.py").read_text() for env in (first, second)
    } == {text}


def test_build_without_a_sandbox_shares_no_file(
    pair: tuple[Target, Target], lean_workspace: Workspace
) -> None:
    """It could write into one."""
    environment(make_job(pair[0], lean_workspace))
    time.sleep(_SETTLED)
    environment(make_job(pair[0], later(lean_workspace)))

    env = environment(make_job(pair[1], later(lean_workspace), sandbox="none"))

    files = [path for path in env.python.parent.parent.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_nlink for path in files if path.is_file()} == {1}


def test_keeps_the_modules_that_importing_the_framework_compiles(
    target: Target, lean_workspace: Workspace
) -> None:
    """The import itself can write into no file of the environment."""
    framework = Framework(name="iniconfig", version="2.1.0")
    with_framework = dataclasses.replace(target, framework=framework)
    lock = with_framework.lock
    text = target.lock.read_text().replace(target.lock.name, lock.name)
    lines = "".join(line for line in text.splitlines(True) if not line.startswith("#"))
    lock.write_text(render(lines, input_text=_wanted(with_framework), command="x", cooldown="y"))

    env = environment(make_job(with_framework, lean_workspace))

    compiled = [path.name for path in (env.site_packages / "iniconfig/__pycache__").iterdir()]
    assert any(name.startswith("__init__.cpython-") for name in compiled)
    assert not (env.python.parent.parent / "scratch").exists()


def test_is_made_and_checked_once(target: Target, lean_workspace: Workspace) -> None:
    first = environment(make_job(target, lean_workspace))
    born = first.python.lstat().st_mtime_ns
    later_build = environment(make_job(target, later(lean_workspace)))
    (first.site_packages / "iniconfig" / "__init__.py").unlink()

    same_command = environment(make_job(target, lean_workspace))

    assert (later_build, later_build.python.lstat().st_mtime_ns) == (first, born)
    assert not (same_command.site_packages / "iniconfig" / "__init__.py").exists()


def test_is_made_again_when_cut_off(target: Target, lean_workspace: Workspace) -> None:
    """What a kill in the middle leaves: files, but no marker."""
    first = environment(make_job(target, lean_workspace))
    (first.python.parent.parent / "cuwheel.json").unlink()
    (first.site_packages / "iniconfig" / "__init__.py").unlink()

    again = environment(make_job(target, later(lean_workspace)))

    assert (again.site_packages / "iniconfig" / "__init__.py").is_file()


def _cached(workspace: Workspace) -> Path:
    """Return the module in the installer's cache."""
    [module] = (workspace.cache / "uv").glob("archive-*/*/iniconfig/__init__.py")
    return module


def _change(module: Path) -> None:
    """Write as many bytes as before, with the old time."""
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
    ids=["changed", "emptied", "added", "compiled next to it"],
)
def test_what_was_changed_is_never_run(
    damage: Callable[[Path], object], target: Target, lean_workspace: Workspace
) -> None:
    first = environment(make_job(target, lean_workspace))
    site, text = first.site_packages, (first.site_packages / "iniconfig/__init__.py").read_text()
    files = set(site.rglob("*"))
    damage(site / "iniconfig" / "__init__.py")

    environment(make_job(target, later(lean_workspace)))

    assert "was damaged and is made again" in heard(lean_workspace)
    assert ((site / "iniconfig/__init__.py").read_text(), set(site.rglob("*"))) == (text, files)


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


def _plant(module: Path) -> None:
    (module.parent.parent / "evil.pth").write_text("import sys\n")


@pytest.mark.parametrize(
    "damage", [_change, Path.unlink, lambda module: module.write_text(""), _plant]
)
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

    env = environment(make_job(target, later(workspace)))

    assert (env.site_packages / "iniconfig" / "__init__.py").read_text() == text
    assert not (env.site_packages / "evil.pth").exists()
    assert damage == _plant or "its files are downloaded again" in heard(workspace)


def test_names_what_is_damaged_where_nothing_may_be_downloaded(
    target: Target, tmp_path: Path
) -> None:
    workspace = make_workspace(tmp_path / "own")
    environment(make_job(target, workspace))
    cached = _cached(workspace)
    cached.write_text("")
    remove_tree(workspace.cache / "environments")

    with pytest.raises(ToolchainError, match=r"iniconfig/__init__\.py"):
        environment(make_job(target, later(workspace), offline=True))


@pytest.mark.e2e
def test_stays_while_a_build_uses_it(target: Target, lean_workspace: Workspace) -> None:
    env = environment(make_job(target, lean_workspace))
    entries = read_cache(lean_workspace.cache).entries

    done = prune([entry for entry in entries if entry.kind.folder == "environments"])

    assert env.python.parent.parent in [entry.path for entry in done.in_use]
    assert env.python.exists()


def test_refuses_lock_that_does_not_match_its_input(
    target: Target, lean_workspace: Workspace
) -> None:
    """Nor has another release of the framework than the recipe's one."""
    recipe = dataclasses.replace(target.recipe, requires=("iniconfig==2.0.0",))
    changed = dataclasses.replace(target, recipe=recipe)
    other = dataclasses.replace(target, framework=Framework(name="iniconfig", version="2.0.0"))

    with pytest.raises(LockError) as stale:
        environment(make_job(changed, lean_workspace))
    with pytest.raises(LockError) as missing:
        environment(make_job(other, lean_workspace))

    assert stale.value.fix == "nox -s lock -- build:tiny-cuda"
    assert "--framework iniconfig==2.0.0" in missing.value.fix


def test_refuses_edited_hash(target: Target, lean_workspace: Workspace) -> None:
    lock = target.lock
    lines = lock.read_text().splitlines(keepends=True)
    body = "".join(line for line in lines if not line.startswith("#"))
    lock.write_text(render(_flip(body), input_text=_wanted(target), command="x", cooldown="y"))

    with pytest.raises(InstallError) as caught:
        environment(make_job(target, lean_workspace))

    assert "ash mismatch" in caught.value.why


def _flip(text: str) -> str:
    """Return a text with the first digit of every hash changed."""
    head, *rest = text.split("--hash=sha256:")
    changed = [("0" if part[0] != "0" else "1") + part[1:] for part in rest]
    return "--hash=sha256:".join([head, *changed])


def _wanted(target: Target) -> str:
    return as_input(target.locked_build.requirements)


def _write_lock(target: Target, lean_workspace: Workspace) -> None:
    """Write a lock for the recipe's requirements, without the frontend."""
    other = target.root / "other.in"
    other.parent.mkdir(parents=True)
    other.write_text(as_input(target.recipe.requires))
    body = resolve(
        other,
        lean_workspace,
        python="3.10",
        uploaded_before="2026-11-14",
    )
    text = render(body, input_text=_wanted(target), command="nox -s lock", cooldown="2026-11-14")
    target.lock.parent.mkdir(parents=True)
    target.lock.write_text(text)
