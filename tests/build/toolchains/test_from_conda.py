"""Pythons installed from conda locks, and locks with verified files."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from cuwheel.base.errors import (
    DownloadError,
    HashMismatchError,
    InterpreterNotFoundError,
    LockError,
)
from cuwheel.base.system.console import Console
from cuwheel.base.system.pythons import Interpreter, find_python, own_python
from cuwheel.build.locks.lock_jobs import LockSpec
from cuwheel.build.locks.resolve import resolve_locks, verify_locks
from cuwheel.build.toolchains.conda.lock_file import NOT_FETCHED, read_conda_lock
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.build.toolchains.conda_layout import complete_prefix
from cuwheel.build.toolchains.from_conda import conda_python, key_of_lock
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.toolchains.python_choice import choose_python
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_document
from tests.support.factories import heard, later, make_workspace
from tests.support.toolchains.channel import (
    Package,
    Text,
    toy_packages,
    write_channel,
    write_lock,
    write_solved_lock,
    write_source,
)

RELEASE = own_python().release
TAG = RELEASE.replace(".", "")
NOWHERE = "3.99"  # a release that no machine has


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toys, and a Python: the one that runs this, behind a script."""
    script = Text(content=f'#!/bin/sh\nexec {own_python().path} "$@"\n', executable=True)
    programs = {f"bin/python{release}": script for release in (RELEASE, NOWHERE)}
    python = Package(name="python", version="3.99.1", files=programs)
    return write_channel(tmp_path_factory.mktemp("channel"), (*toy_packages(), python))


@pytest.fixture
def workspace(
    tmp_path: Path, channel: Path, conda_lock: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A workspace of a user with a project of their own, who reaches the channel."""
    monkeypatch.setenv(MIRRORS_VARIABLE, channel.as_uri())
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))
    (tmp_path / "project" / "envs").mkdir(parents=True)
    made = make_workspace(tmp_path)
    made.cache.mkdir()
    (made.cache / "environments").symlink_to(conda_lock.parents[2])
    return made


def solve_lock(folder: Path, *specs: str) -> LockSpec:
    """A conda lock in a folder of `envs/`, solved from the channel that is set."""
    source = write_source(folder, *specs)
    mirrors = Mirrors.of({MIRRORS_VARIABLE: os.environ[MIRRORS_VARIABLE]})
    path = write_solved_lock(source, mirrors, folder / "solver")
    return LockSpec(name="toolchain:130:conda", source=source, lock=path)


@pytest.fixture
def job(tmp_path: Path) -> LockSpec:
    """A lock of the toys, with unverified files."""
    return solve_lock(tmp_path / "project" / "envs" / "cuda130", "toy ==1.0")


def test_installs_python_of_lock(workspace: Workspace, tmp_path: Path) -> None:
    solve_lock(tmp_path / "project" / "envs" / f"python{TAG}", "python")

    made = conda_python(RELEASE, workspace)

    assert made
    assert made.is_relative_to(workspace.cache / "pythons")
    assert find_python(str(made), {}).release == RELEASE


def test_there_is_no_python_without_lock(workspace: Workspace) -> None:
    assert conda_python("3.98", workspace) is None


def choose(requested: str, workspace: Workspace, *, may_install: bool = True) -> Interpreter:
    return choose_python(requested, workspace, may_install=may_install)


def test_missing_python_comes_from_lock(workspace: Workspace, tmp_path: Path) -> None:
    solve_lock(tmp_path / "project" / "envs" / "python399", "python")

    chosen = choose(NOWHERE, workspace)

    assert chosen == own_python()  # to which the lock's Python forwards
    assert list((workspace.cache / "pythons").glob("python399-conda-*/bin/python3.99"))


def test_missing_python_without_lock_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(InterpreterNotFoundError, match=NOWHERE):
        choose(NOWHERE, workspace)


def test_explaining_installs_no_python(workspace: Workspace, tmp_path: Path) -> None:
    solve_lock(tmp_path / "project" / "envs" / "python399", "python")

    with pytest.raises(InterpreterNotFoundError):
        choose(NOWHERE, workspace, may_install=False)
    assert not (workspace.cache / "pythons").exists()


def test_missing_python_out_of_reach_names_all_places(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve_lock(tmp_path / "project" / "envs" / "python399", "python")
    monkeypatch.setenv(MIRRORS_VARIABLE, "http://127.0.0.1:9/channel")

    with pytest.raises(InterpreterNotFoundError) as caught:
        choose(NOWHERE, workspace)

    assert "searched" in caught.value.why
    assert "127.0.0.1:9" in caught.value.why
    assert "CUWHEEL_CONDA_MIRROR" in caught.value.fix


def test_python_out_of_reach_names_ways_out(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve_lock(tmp_path / "project" / "envs" / f"python{TAG}", "python")
    monkeypatch.setenv(MIRRORS_VARIABLE, "http://127.0.0.1:9/channel")

    with pytest.raises(DownloadError) as caught:
        conda_python(RELEASE, workspace)

    assert "CUWHEEL_CONDA_MIRROR" in caught.value.fix
    assert not list((workspace.cache / "pythons").glob("python*[0-9a-f]"))


def test_python_is_not_made_again_for_having_been_used(
    workspace: Workspace, tmp_path: Path
) -> None:
    """What it compiles on the way is no damage."""
    solve_lock(tmp_path / "project" / "envs" / f"python{TAG}", "python")
    made = conda_python(RELEASE, workspace)
    assert made
    inode = made.stat().st_ino
    (made.parent / "__pycache__").mkdir()
    (made.parent / "__pycache__" / "x.pyc").touch()

    conda_python(RELEASE, later(workspace))

    assert made.stat().st_ino == inode
    assert "damaged" not in heard(workspace)


def test_notices_changed_input(workspace: Workspace, job: LockSpec) -> None:
    source = job.lock.with_name("environment.yml")
    source.write_text(source.read_text().replace("1.0", "1.1"))

    with pytest.raises(LockError) as caught:
        provide_toolchain(toolkit_by_release("13.0"), "conda", workspace)

    assert "environment.yml or virtual-packages.yml has changed" in caught.value.why
    assert caught.value.fix == "nox -s lock -- toolchain:130:conda"


def test_other_library_is_where_builds_search(tmp_path: Path) -> None:
    for name in ("lib/libcudnn.so", "lib/libstdc++.so", "targets/x86_64-linux/lib/libcudart.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    complete_prefix(tmp_path)

    names = sorted(path.name for path in (tmp_path / "lib64").glob("*") if path.is_file())
    assert names == ["libcudart.so", "libcudnn.so"]


@pytest.mark.e2e
def test_lock_session_writes_conda_lock(workspace: Workspace, tmp_path: Path) -> None:
    source = write_source(tmp_path / "project" / "envs" / "cuda130", "toy ==1.0")
    job = LockSpec(
        name="toolchain:130:conda", source=source, lock=source.with_name("conda-lock.yml")
    )

    resolve_locks((job,), workspace, note="a note")

    written = read_conda_lock(job.lock)
    assert [package.name for package in written.packages] == ["toy", "toy-data"]
    assert written.index.endswith("(a note)")
    assert "cuda130/conda-lock.yml: 2 packages" in heard(workspace)


@pytest.mark.e2e
def test_verifying_notes_that_files_were_seen(
    workspace: Workspace,
    job: LockSpec,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUWHEEL_CACHE", str(workspace.cache))
    before, key = read_conda_lock(job.lock), key_of_lock(job.lock)

    run_command("lock-verify", ["130", "--json"], Console())

    after = read_conda_lock(job.lock)
    assert before.files == NOT_FETCHED
    assert re.fullmatch(r"fetched \d{4}-\d\d-\d\d: every hash and size verified", after.files)
    assert after.packages == before.packages
    assert key_of_lock(job.lock) == key  # the same toolchain
    [lock_data] = read_document(capsys.readouterr().out, "lock-verify")["locks"]
    assert lock_data["lock"] == str(job.lock)
    assert {package["url"]: package["sha256"] for package in lock_data["files"]} == {
        package.url: package.sha256 for package in before.packages
    }


@pytest.mark.e2e
def test_verifying_fills_in_what_index_lacked(workspace: Workspace, job: LockSpec) -> None:
    known = read_conda_lock(job.lock)
    bare = tuple(dataclasses.replace(package, sha256="", size=0) for package in known.packages)
    lacking = dataclasses.replace(known, packages=bare)
    write_lock(job.lock, lacking)

    verify_locks((job,), workspace)

    files = {
        package.name: (package.sha256, package.size)
        for package in read_conda_lock(job.lock).packages
    }
    assert files == {package.name: (package.sha256, package.size) for package in known.packages}


@pytest.mark.e2e
def test_verifying_refuses_other_file(workspace: Workspace, job: LockSpec) -> None:
    known = read_conda_lock(job.lock)
    first, *others = known.packages
    wrong = dataclasses.replace(first, sha256="0" * 64)
    changed = dataclasses.replace(known, packages=(wrong, *others))
    write_lock(job.lock, changed)
    text = job.lock.read_text()

    with pytest.raises(HashMismatchError):
        verify_locks((job,), workspace)

    assert job.lock.read_text() == text


def test_edited_lock_shows_though_its_toolchain_is_installed(
    workspace: Workspace, tmp_path: Path
) -> None:
    job = solve_lock(tmp_path / "project" / "envs" / "cuda130", "toy ==1.0")
    (workspace.cache / "toolchains" / f"cuda130-conda-{key_of_lock(job.lock)}").mkdir(parents=True)
    job.lock.write_text(job.lock.read_text().replace("toy-1.0-test_0", "toy-6.6-test_0"))

    with pytest.raises(LockError, match="was edited by hand"):
        provide_toolchain(toolkit_by_release("13.0"), "conda", workspace)


def test_environment_without_lock_isnt_passed_over(workspace: Workspace, tmp_path: Path) -> None:
    write_source(tmp_path / "project" / "envs" / "cuda130", "toy")

    with pytest.raises(LockError) as caught:
        provide_toolchain(toolkit_by_release("13.0"), "conda", workspace)

    assert caught.value.fix == "nox -s lock -- toolchain:130:conda"
