"""What a build finds out before anything is downloaded."""

from __future__ import annotations

import dataclasses
import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.build import checks
from cuwheel.build.early_check import check_early
from cuwheel.build.machine import read_machine
from cuwheel.conda.lock_file import read_conda_lock
from cuwheel.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    LockError,
    PreflightError,
    SourceError,
    UnsupportedArchError,
)
from cuwheel.model.link import Bundled, External, Link, Static
from cuwheel.model.platform import AARCH64
from cuwheel.model.recipe import Framework, Smoke
from cuwheel.paths import ROOT
from cuwheel.standalone.memory_gate.peaks import Peaks
from cuwheel.system import compilers, machine
from cuwheel.system.pythons import find_python, own_python
from cuwheel.system.quantities import GIB
from cuwheel.workspace.job import BuildSettings, Job
from tests.support.factories import heard, locked_target, make_job, make_workspace
from tests.support.foreign import write_python
from tests.support.requirements import require

if TYPE_CHECKING:
    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without compilers and binutils; gives the folder where they would be."""
    folder = tmp_path / "usr" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(compilers, "SYSTEM_PATH", str(folder))
    monkeypatch.setattr(checks, "SYSTEM_PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    return folder


def test_finds_all_problems_at_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    target = locked_target(archs=("99",), disk=1 << 60, needs={"debian": ("no-such-package",)})
    with pytest.raises(InterpreterNotFoundError) as none:
        find_python("3.99", os.environ)

    with pytest.raises(PreflightError) as caught:
        check_early(make_job(target, workspace, python=none.value))
    said = str(caught.value)

    wanted = ("sm_99", "no Python 3.99", "CXX=/nonexistent/g++", "too small", "no-such-package")
    assert [text for text in wanted if text not in said] == []


def test_names_command_that_installs_system_packages(workspace: Workspace) -> None:
    said = _refusal(locked_target(needs={"debian": ("libnosuch-dev",)}), workspace)

    assert "apt-get install libnosuch-dev" in said


def test_finds_stale_lock_before_anything_is_downloaded(workspace: Workspace) -> None:
    with pytest.raises(LockError) as caught:
        check_early(make_job(locked_target(requires=("setuptools",)), workspace))

    assert "its input has changed since it was written" in caught.value.why
    assert "its input is the declarations in recipes/tiny_skbuild.py" in caught.value.why
    assert caught.value.fix == "nox -s lock -- build:tiny-skbuild"


def test_finds_smoke_test_that_is_missing(workspace: Workspace) -> None:
    smoke = Smoke(imports=("tiny_skbuild",), script="tiny_skbiuld.py")

    said = _refusal(locked_target(smoke=smoke), workspace)

    assert "the smoke test tiny_skbiuld.py is missing" in said
    assert "`smoke` in recipes/tiny_skbuild.py names it" in said


def test_warns_of_library_that_the_lock_does_not_supply(workspace: Workspace) -> None:

    check_early(make_job(locked_target(link=Link("cudart", "cutensornet")), workspace))

    said = " ".join(heard(workspace).split())
    assert said.count("smoke test") == 1
    assert "require cutensornet-cu13, and envs/build/tiny_skbuild.lock has none of them" in said
    assert "add cutensornet-cu13 to `requires` in recipes/tiny_skbuild.py" in said


@pytest.mark.parametrize(
    "changes",
    [
        {"link": Link("cudart"), "mode": External()},
        {"link": Link("cutensornet"), "mode": Bundled()},
        {"link": Link("cufft"), "mode": Static(), "toolkit": "12.2", "provider": "conda"},
    ],
    ids=["external", "bundled", "static"],
)
def test_says_nothing_of_what_is_supplied_or_held(
    workspace: Workspace, changes: dict[str, Any]
) -> None:
    check_early(make_job(locked_target(**changes), workspace))

    assert "smoke test" not in heard(workspace)


def test_refuses_python_outside_recipes_range(workspace: Workspace) -> None:
    said = _refusal(locked_target(requires_python=">=3.99"), workspace)

    assert "its `requires_python` is >=3.99" in said


def test_warns_of_compile_that_memory_may_not_hold(workspace: Workspace) -> None:
    check_early(make_job(locked_target(memory_per_job=10_000 * GIB), workspace))

    assert "may need 10000.0 GiB of memory" in heard(workspace)


def test_names_compiles_that_took_more_memory_than_there_is(workspace: Workspace) -> None:
    target = locked_target(archs=("90",), memory_per_job=GIB)
    peaks = Peaks(str(workspace.cache / "memory"), target.recipe.name)
    peaks.learn("ptxas", "/cuwheel/source/csrc/bwd.cu 90 -O3", 10_000 * GIB)
    peaks.learn("ptxas", "/cuwheel/source/csrc/bwd.cu 80 -O3", 20_000 * GIB)  # not asked for

    check_early(make_job(target, workspace))

    assert "1 compile used more memory in an earlier build" in heard(workspace)
    assert "bwd.cu for sm_90 (10000.0 GiB)." in heard(workspace)


def test_refuses_folder_that_flags_cannot_carry(tmp_path: Path) -> None:
    said = _refusal(locked_target(), make_workspace(tmp_path / "a folder"))

    assert "compiler flags can't contain" in said


def test_refuses_folder_for_wheels_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "dist").write_text("a file stands in its place")

    said = _refusal(locked_target(), make_workspace(tmp_path))

    assert f"{tmp_path}/dist is not a folder" in said


def test_refuses_source_that_is_not_there(workspace: Workspace) -> None:
    given = Path("/nonexistent/source")

    with pytest.raises(SourceError) as caught:
        check_early(make_job(locked_target(source_override=given), workspace))

    assert caught.value.what == f"{given} doesn't exist"


def test_gives_single_problem_its_own_error(workspace: Workspace) -> None:
    with pytest.raises(UnsupportedArchError):
        check_early(make_job(locked_target(archs=("70",)), workspace))


@pytest.mark.usefixtures("bare_machine")
def test_needs_compiler_and_binutils_of_machine_for_other_toolchain(workspace: Workspace) -> None:
    said = _refusal(locked_target(), workspace)

    assert "apt-get install g++" in said
    assert "apt-get install binutils" in said


@pytest.mark.usefixtures("bare_machine")
def test_needs_compiler_for_the_other_machine(workspace: Workspace) -> None:
    target = locked_target(platform=AARCH64)

    said = "; ".join(_problems_of(target, workspace, None))

    assert "aarch64-linux-gnu-g++ isn't on" in said
    assert "apt-get install g++-aarch64-linux-gnu" in said
    assert "neither --target-root nor CUWHEEL_TARGET_ROOT names one" in said


def test_needs_system_packages_in_the_other_machines_root(
    workspace: Workspace, tmp_path: Path
) -> None:
    write_python(tmp_path / "root" / "usr", own_python().release)
    target = locked_target(platform=AARCH64, needs={"debian": ("libfftw3-dev", "dpkg")})

    said = "; ".join(_problems_of(target, workspace, tmp_path / "root"))

    assert f"{tmp_path / 'root'} lacks Debian packages" in said
    assert "tiny-skbuild needs libfftw3-dev dpkg for aarch64" in said
    assert "--include=…,libfftw3-dev,dpkg" in said


def test_takes_system_packages_of_the_other_machines_root(
    workspace: Workspace, tmp_path: Path
) -> None:
    write_python(tmp_path / "root" / "usr", own_python().release)
    docs = tmp_path / "root/usr/share/doc/no-such-here"
    docs.mkdir(parents=True)
    (docs / "changelog.Debian.gz").write_bytes(gzip.compress(b"no-such (1.0) unstable\n"))
    target = locked_target(platform=AARCH64, needs={"debian": ("no-such-here", "nor-such")})

    said = "; ".join(_problems_of(target, workspace, tmp_path / "root"))

    assert "tiny-skbuild needs nor-such for aarch64" in said


def test_takes_cuda_for_the_other_machine_from_wheels(workspace: Workspace) -> None:
    target = locked_target(platform=AARCH64, toolkit="12.2", provider="conda")

    said = "; ".join(_problems_of(target, workspace, None))

    assert "CUDA 12.2 comes from conda; for aarch64 it comes from NVIDIA's wheels" in said
    assert "use toolkit 13.0 or newer" in said


def test_other_machine_has_its_own_driver(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "driver_version", lambda: "470.223.02")

    said = "; ".join(_problems_of(locked_target(platform=AARCH64), workspace, None))

    assert "driver" not in said


@pytest.mark.parametrize("driver", [None, "580.65.06", "590.10"])
def test_accepts_driver_that_runs_the_wheel(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, driver: str | None
) -> None:
    monkeypatch.setattr(machine, "driver_version", lambda: driver)

    check_early(make_job(locked_target(), workspace))


@pytest.mark.parametrize(
    ("toolkits", "driver", "way"),
    [
        (("12.2", "12.8", "13.0"), "535.104.05", "(`nox -s build-tiny-skbuild-128`), update"),
        (
            ("13.0",),
            "535.104.05",
            'add "12.8" to the recipe\'s `toolkits` and build for it, update',
        ),
        (("13.0",), "470.223.02", "to fix   1. update the driver"),
    ],
)
def test_names_ways_out_of_old_driver(
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    toolkits: tuple[str, ...],
    driver: str,
    way: str,
) -> None:
    monkeypatch.setattr(machine, "driver_version", lambda: driver)

    said = _refusal(locked_target(toolkits=toolkits), workspace)

    assert f"its driver is {driver}, and the wheel needs 580.65.06 or newer" in said
    assert way in said


def test_builds_for_machine_with_other_driver(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "driver_version", lambda: "470.223.02")

    check_early(make_job(locked_target(), workspace, any_driver=True))


def test_wants_room_for_what_conda_lock_names(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: GIB)
    target = _conda_target(disk=0)
    archives = read_conda_lock(ROOT / "envs" / "cuda122" / "conda-lock.yml").download_size
    environment = 670 << 20

    said = _refusal(target, workspace)

    assert f"1.0 GiB are free, {(3 * archives + environment) / GIB:.1f}" in said


@pytest.mark.parametrize(
    ("provider", "made", "wanted"),
    [
        ("pypi", (), "3.7"),
        ("pypi", ("environments/tiny-skbuild-cp311-0123456789abcdef",), "3.0"),
        ("pypi", ("toolchains/cuda130-pypi-0123456789abcdef",), "1.7"),
        ("system", (), "1.7"),
    ],
)
def test_wants_room_for_what_cache_lacks(
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    made: tuple[str, ...],
    wanted: str,
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: 0)
    for name in made:
        (workspace.cache / name).mkdir(parents=True)

    said = _refusal(locked_target(provider=provider, disk=GIB), workspace)

    assert f"the disk of {workspace.cache} is too small: 0 bytes are free, {wanted}" in said


def test_wants_room_for_framework_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: 0)
    target = locked_target(framework=Framework(name="torch", version="2.11.0"), disk=0)
    alone = _refusal(target, workspace)
    (workspace.cache / "environments" / "other-cp311-torch2.11-0123456789abcdef").mkdir(
        parents=True
    )

    with_other = _refusal(target, workspace)

    assert "free, 6.8" in alone
    assert "free, 2.0" in with_other


def test_wants_room_on_each_disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = dataclasses.replace(workspace, work=Path("/dev/shm/cuwheel-none"))  # a disk of its own
    require("disks", "that each disk is asked for room of its own")
    monkeypatch.setattr(machine, "free_disk", lambda _: 0)

    said = _refusal(locked_target(provider="system", disk=GIB), apart)

    assert f"the disk of {apart.work} is too small: 0 bytes are free, 1.0" in said
    assert f"the disk of {apart.cache} is too small: 0 bytes are free, 670.0 MiB" in said


def test_wants_no_room_for_what_is_there(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: GIB)
    (workspace.cache / "toolchains" / "cuda122-conda-0123456789abcdef").mkdir(parents=True)
    (workspace.cache / "environments" / "tiny-skbuild-cp311-0123456789abcdef").mkdir(parents=True)

    check_early(make_job(_conda_target(disk=GIB), workspace))


def _problems_of(target: Target, workspace: Workspace, root: Path | None) -> list[str]:
    """What is wrong with a build for another machine, whose root folder is this."""
    settings = BuildSettings(target_root=root)
    found = read_machine(settings, own_python(), platform=target.platform)
    job = Job(target=target, settings=settings, workspace=workspace, machine=found)
    with pytest.raises(CuwheelError) as caught:
        check_early(job)
    return [caught.value.what, caught.value.why, caught.value.fix]


def _refusal(target: Target, workspace: Workspace) -> str:
    with pytest.raises(PreflightError) as caught:
        check_early(make_job(target, workspace))
    return str(caught.value)


def _conda_target(**changes: Any) -> Target:
    return locked_target(provider="conda", toolkit="12.2", **changes)
