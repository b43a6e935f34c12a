"""The choice between a pinned host compiler and the machine's."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.inputs.locked_files import pinned
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.toolchains.debian.archives import ARCHIVES_VARIABLE
from cuwheel.build.toolchains.debian.lock_file import DebianPackage, read_debian_lock
from cuwheel.build.toolchains.host_compiler import check_host_compiler, is_obtainable
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.cli.target_choice import choose_target
from tests.support.factories import heard, make_job, make_target, make_workspace

PACKAGES = read_debian_lock(ROOT / "envs" / "gcc10" / "debian.lock").packages_for(
    platform.machine()
)
MakeFile = Callable[[Path, DebianPackage], Path]


def in_pool(folder: Path, package: DebianPackage) -> Path:
    return folder / "archive" / package.path


def in_cache(folder: Path, package: DebianPackage) -> Path:
    file = pinned(package)
    return folder / "cache" / "downloads" / file.sha256 / file.name


def write(folder: Path, packages: tuple[DebianPackage, ...], place: MakeFile) -> None:
    for package in packages:
        path = place(folder, package)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty cache, and an archive without packages."""
    (tmp_path / "archive").mkdir()
    monkeypatch.setenv(ARCHIVES_VARIABLE, (tmp_path / "archive").as_uri())
    return make_workspace(tmp_path)


@pytest.mark.parametrize("place", [in_pool, in_cache])
@pytest.mark.parametrize("is_whole", [True, False])
def test_compiler_needs_every_package(
    workspace: Workspace, tmp_path: Path, place: MakeFile, *, is_whole: bool
) -> None:
    write(tmp_path, PACKAGES if is_whole else PACKAGES[:-1], place)

    assert is_obtainable("gcc10", workspace, offline=True) is is_whole


@pytest.mark.usefixtures("workspace")
def test_compiler_is_in_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_MIRROR", (tmp_path / "cache").as_uri())
    write(tmp_path, PACKAGES, in_cache)

    assert is_obtainable("gcc10", make_workspace(tmp_path / "other"), offline=True)


def test_server_out_of_reach_is_no_reason_for_another_compiler(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ARCHIVES_VARIABLE, "http://127.0.0.1:9/debian")

    assert is_obtainable("gcc10", workspace, offline=False)
    assert not is_obtainable("gcc10", workspace, offline=True)


@pytest.mark.parametrize(
    ("requested", "is_whole", "compiler"),
    [(None, True, "gcc10"), (None, False, "system"), ("gcc10", False, "gcc10")],
)
def test_machines_compiler_replaces_only_the_usual_one(
    workspace: Workspace, tmp_path: Path, requested: str | None, compiler: str, *, is_whole: bool
) -> None:
    write(tmp_path, PACKAGES if is_whole else (), in_pool)
    root = ROOT / "tests" / "project"
    [entry] = [item for item in load_catalogue([root]) if item.name == "tiny-capi"]
    request = BuildRequest(host_compiler=requested)

    target = choose_target(entry, "130", "3.12", request, workspace)

    assert target.host_compiler == compiler


@pytest.mark.parametrize(
    ("requested", "is_warned"),
    [(None, True), ("system", False)],
)
def test_warns_of_the_machines_compiler(
    workspace: Workspace, requested: str | None, *, is_warned: bool
) -> None:
    job = make_job(make_target(), workspace, host_compiler=requested)

    check_host_compiler(job)

    assert ("platform tag depend on it" in heard(workspace)) is is_warned
