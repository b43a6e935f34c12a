"""The problems that a build finds before anything is downloaded."""

from __future__ import annotations

import dataclasses
import gzip
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.errors import (
    CuwheelError,
    InterpreterNotFoundError,
    LockError,
    PreflightError,
    RecipeError,
    SourceError,
    UsageError,
)
from cuwheel.base.paths import ROOT
from cuwheel.base.system import machine
from cuwheel.base.system.process import run
from cuwheel.base.system.pythons import find_python, own_python
from cuwheel.base.system.quantities import GIB
from cuwheel.build.compile.memory.peaks import Peaks
from cuwheel.build.pipeline import disk_needs
from cuwheel.build.pipeline.checks import check
from cuwheel.build.pipeline.environment_place import environment_of
from cuwheel.build.pipeline.machine import read_machine
from cuwheel.build.recipe.link import Bundled, External, Link, Static
from cuwheel.build.recipe.platform import AARCH64, own_platform
from cuwheel.build.recipe.recipe import CMake, Framework, Smoke
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.conda.lock_file import read_conda_lock
from cuwheel.build.toolchains.from_pypi import pypi_folder
from cuwheel.build.toolchains.redist.lock_file import read_redist_lock
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment, Toolchain
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import (
    heard,
    locked_target,
    make_job,
    make_target,
    make_workspace,
)
from tests.support.packages.foreign_platform import write_python
from tests.support.requirements import require
from tests.support.toolchains.layouts import write_toolkit


def test_finds_all_problems_at_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    target = locked_target(archs=("99",), disk=1 << 60, needs={"debian": ("no-such-package",)})
    with pytest.raises(InterpreterNotFoundError) as none:
        find_python("3.99", os.environ)

    with pytest.raises(PreflightError) as caught:
        check(make_job(target, workspace, python=none.value), "early")
    text = str(caught.value)

    wanted = ("sm_99", "no Python 3.99", "CXX=/nonexistent/g++", "too small", "no-such-package")
    assert [part for part in wanted if part not in text] == []


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"archs": ("70",)}, RecipeError, ""),
        ({"requires_python": ">=3.99"}, UsageError, ""),
        ({"source_override": Path("/nonexistent/source")}, SourceError, ""),
        (
            {"needs": {"debian": ("libnosuch-dev",)}},
            *(PreflightError, "apt-get install libnosuch-dev"),
        ),
        (
            {"smoke": Smoke(imports=("tiny_skbuild",), script="tiny_skbiuld.py")},
            *(PreflightError, "the smoke test tiny_skbiuld.py is missing"),
        ),
    ],
)
def test_names_single_problem(
    workspace: Workspace, changes: dict[str, Any], error: type[CuwheelError], text: str
) -> None:
    with pytest.raises(error) as caught:
        check(make_job(locked_target(**changes), workspace), "early")

    assert text in str(caught.value)


def test_finds_stale_lock_before_anything_is_downloaded(workspace: Workspace) -> None:
    with pytest.raises(LockError) as caught:
        check(make_job(locked_target(requires=("setuptools",)), workspace), "early")

    assert "its input has changed since it was written" in caught.value.why
    assert "its input is the declarations in recipes/tiny_skbuild.py" in caught.value.why
    assert caught.value.fix == "nox -s lock -- build:tiny-skbuild"


def test_warns_of_library_that_the_lock_does_not_supply(workspace: Workspace) -> None:

    check(make_job(locked_target(link=Link("cudart", "cutensornet")), workspace), "early")

    text = " ".join(heard(workspace).split())
    assert text.count("smoke test") == 1
    assert "require cutensornet-cu13, and envs/build/tiny_skbuild.lock has none of them" in text
    assert "add cutensornet-cu13 to `requires` in recipes/tiny_skbuild.py" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"link": Link("cudart"), "mode": External()},
        {"link": Link("cutensornet"), "mode": Bundled()},
        {"link": Link("cufft"), "mode": Static(), "toolkit": "12.2", "provider": "conda"},
    ],
    ids=["external", "bundled", "static"],
)
def test_warns_of_nothing_that_is_supplied_or_held(
    workspace: Workspace, changes: dict[str, Any]
) -> None:
    check(make_job(locked_target(**changes), workspace), "early")

    assert "smoke test" not in heard(workspace)


def test_warns_of_compiles_that_memory_may_not_hold(workspace: Workspace) -> None:
    """By the recipe, then as measured for these archs."""
    target = locked_target(archs=("90",), memory_per_job=10_000 * GIB)
    check(make_job(target, workspace), "early")
    peaks = Peaks(workspace.cache / "memory", target.recipe.name, 1)
    peaks.learn("ptxas", "/cuwheel/source/csrc/bwd.cu 90 -O3", 10_000 * GIB)
    peaks.learn("ptxas", "/cuwheel/source/csrc/bwd.cu 80 -O3", 20_000 * GIB)  # of another arch

    check(make_job(target, workspace), "early")

    assert heard(workspace).count("may need 10000.0 GiB of memory") == 1
    assert "bwd.cu for sm_90 used up to 10000.0 GiB of memory" in heard(workspace)


def test_refuses_folder_that_flags_cannot_carry(tmp_path: Path) -> None:
    text = _refusal(locked_target(), make_workspace(tmp_path / "a folder"))

    assert "compiler flags can't contain" in text


@pytest.mark.usefixtures("bare_machine")
def test_needs_compiler_and_binutils_of_machine_for_other_toolchain(workspace: Workspace) -> None:
    text = _refusal(locked_target(), workspace)

    assert "apt-get install g++" in text
    assert "apt-get install binutils" in text


@pytest.mark.usefixtures("bare_machine")
def test_needs_compiler_and_toolkit_for_the_other_machine(workspace: Workspace) -> None:
    of_wheels = locked_target(platform=AARCH64)
    of_conda = locked_target(platform=AARCH64, toolkit="12.2", provider="conda")

    text, other = ("; ".join(_problems_of(each, workspace, None)) for each in (of_wheels, of_conda))

    assert "aarch64-linux-gnu-g++ isn't on" in text
    assert "apt-get install g++-aarch64-linux-gnu" in text
    assert "neither --target-root nor CUWHEEL_TARGET_ROOT names one" in text
    assert "CUDA 12.2 comes from conda; for aarch64 it comes from NVIDIA's wheels" in other
    assert "use toolkit 13.0 or newer without `--toolchain`, or `--toolchain redist`" in other


def test_needs_the_toolkit_of_the_machine_before_anything_else(
    workspace: Workspace, tmp_path: Path
) -> None:
    home = write_toolkit(tmp_path / "cuda", "11.8")
    caller = Caller({"CUDA_HOME": str(home), "PATH": "/nonexistent"})
    named = dataclasses.replace(workspace, caller=caller)

    with pytest.raises(CuwheelError) as caught:
        check(make_job(locked_target(provider="system"), named), "early")

    assert f"CUDA_HOME={home} is CUDA 11.8 in {home}" in str(caught.value)


def test_needs_system_packages_in_the_other_machines_root(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver is not this machine's."""
    monkeypatch.setattr(machine, "driver_version", lambda: "470.223.02")
    write_python(tmp_path / "root" / "usr", own_python().release)
    docs = tmp_path / "root/usr/share/doc/no-such-here"
    docs.mkdir(parents=True)
    (docs / "changelog.Debian.gz").write_bytes(gzip.compress(b"no-such (1.0) unstable\n"))
    needs = {"debian": ("libfftw3-dev", "no-such-here", "dpkg")}

    text = "; ".join(
        _problems_of(locked_target(platform=AARCH64, needs=needs), workspace, tmp_path / "root")
    )

    assert f"{tmp_path / 'root'} lacks Debian packages" in text
    assert "tiny-skbuild needs libfftw3-dev dpkg for aarch64" in text
    assert "--include=…,libfftw3-dev,dpkg" in text
    assert "driver" not in text


@pytest.mark.parametrize(
    ("driver", "settings"),
    [(None, {}), ("580.65.06", {}), ("590.10", {}), ("470.223.02", {"any_driver": True})],
)
def test_accepts_driver_that_runs_the_wheel(
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    driver: str | None,
    settings: dict[str, Any],
) -> None:
    monkeypatch.setattr(machine, "driver_version", lambda: driver)

    check(make_job(locked_target(), workspace, **settings), "early")


@pytest.mark.parametrize(
    ("toolkits", "driver", "way"),
    [
        (("12.2", "12.8", "13.0"), "535.104.05", "(`nox -s build-tiny-skbuild-128`), update"),
        (
            ("13.0",),
            "535.104.05",
            'add "12.9" to the recipe\'s `toolkits` and build for it, update',
        ),
        (("13.0",), "470.223.02", 'add "11.8" to the recipe\'s `toolkits`'),
        (("13.0",), "418.87.00", "to fix   1. update the driver"),
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

    text = _refusal(locked_target(toolkits=toolkits), workspace)

    assert f"its driver is {driver}, and the wheel needs 580.65.06 or newer" in text
    assert way in text


def test_wants_room_for_what_conda_lock_names(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: GIB)
    target = _conda_target(disk=0)
    archives = read_conda_lock(ROOT / "envs" / "cuda122" / "conda-lock.yml").download_size
    environment = 2 * 670 << 20  # the installer's packages, and a copy

    text = _refusal(target, workspace)

    assert f"1.0 GiB are free, {(3 * archives + environment) / GIB:.1f}" in text


def test_wants_room_for_what_redist_lock_names(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: GIB)
    lock = read_redist_lock(ROOT / "envs" / "cuda122" / "redist.lock")
    archives = sum(archive.size for archive in lock.for_machine(own_platform().machine))
    environment = 2 * 670 << 20  # the installer's packages, and a copy

    text = _refusal(locked_target(toolkit="12.2", provider="redist", disk=0), workspace)

    assert f"1.0 GiB are free, {(4 * archives + environment) / GIB:.1f}" in text


def test_archives_are_for_both_kinds_of_machine() -> None:
    assert not locked_target(platform=AARCH64, toolkit="12.2", provider="redist").platform_fault


_TORCH = Framework(name="torch", version="2.11.0")


_CP = f"cp{own_python().release.replace('.', '')}"
_OTHER = "0123456789abcdef"  # of another lock
_UNPACKED = "uv/wheels-v7/pypi/torch/2.11.0-cp312-cp312-manylinux_2_28_x86_64"


@pytest.mark.parametrize(
    ("changes", "cached", "wanted"),
    [
        ({}, (), "6.4"),
        ({}, (f"environments/{_CP}-{_OTHER}", f"toolchains/cuda130-pypi-{_OTHER}"), "6.4"),
        ({"provider": "system"}, (), "2.3"),
        ({"framework": _TORCH}, (), "14.6"),
        ({"framework": _TORCH}, (f"environments/{_CP}-torch2.10-{_OTHER}",), "14.6"),
        ({"framework": _TORCH}, (f"environments/{_CP}-torch2.11-{_OTHER}",), "10.5"),
        ({"framework": _TORCH}, (f"environments/cp99-torch2.11-{_OTHER}",), "11.4"),
        ({"framework": _TORCH}, (_UNPACKED,), "9.8"),
    ],
)
def test_wants_room_for_what_cache_lacks(
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    cached: tuple[str, ...],
    wanted: str,
) -> None:
    monkeypatch.setattr(machine, "free_disk", lambda _: 0)
    monkeypatch.setattr(disk_needs, "shares_blocks", lambda _: False)
    for name in cached:
        (workspace.cache / name).mkdir(parents=True)

    target = make_target(root=workspace.work / "project", disk=GIB, **changes)
    target.lock.parent.mkdir(parents=True)
    target.lock.write_text("torch==2.11.0\n")

    text = _refusal(target, workspace)

    assert f"the disk of {workspace.cache} is too small: 0 bytes are free, {wanted}" in text


def test_wants_no_room_for_what_is_there(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = locked_target(disk=GIB)
    job = make_job(target, workspace)
    environment_of(job, job.python).folder.mkdir(parents=True)
    pypi_folder(target.toolkit, workspace).mkdir(parents=True)
    monkeypatch.setattr(machine, "free_disk", lambda _: 0)

    text = _refusal(target, workspace)

    assert "1.0 GiB needed: 1.0 GiB for the work folder\n" in text


def test_states_what_a_first_build_needs(workspace: Workspace) -> None:
    check(make_job(locked_target(disk=0), workspace), "early")

    words = " ".join(heard(workspace).split())
    assert "for the CUDA 13.0 toolchain, " in words
    assert f"on the disk of {workspace.cache}, where " in words


def test_wants_room_on_a_small_disk(tmp_path: Path) -> None:
    """A real file system of 64 MiB for the cache."""
    require("namespaces", "what a small disk of the cache lacks")
    small = tmp_path / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=64m none "$0" && exec "$@"'
    spaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(small)]

    done = run(
        [*spaces, sys.executable, "-c", _CHECK_SMALL, small],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert f"the disk of {small}/cache is too small: 64.0 MiB are free" in done.output


_CHECK_SMALL = """
import dataclasses, sys
from pathlib import Path
from cuwheel.base.errors import PreflightError
from cuwheel.build.pipeline import disk_needs
from cuwheel.build.pipeline.checks import check
from cuwheel.build.pipeline.environment_place import environment_of
from tests.support.factories import locked_target, make_job, make_workspace

workspace = make_workspace(Path("/dev/shm/none"))
workspace = dataclasses.replace(workspace, cache=Path(sys.argv[1], "cache"))
try:
    check(make_job(locked_target(disk=0), workspace), "early")
except PreflightError as error:
    print(error)
"""


def test_names_a_cache_that_no_file_can_be_in(workspace: Workspace) -> None:
    """Nothing is free there, and nobody can free it."""
    workspace = dataclasses.replace(workspace, cache=Path("/proc/none"))

    with pytest.raises(CuwheelError) as caught:
        check(make_job(locked_target(disk=0), workspace), "early")

    assert "/proc/none can't be written" in f"{caught.value.what} {caught.value.why}"


def test_wants_room_on_each_disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = dataclasses.replace(workspace, work=Path("/dev/shm/cuwheel-none"))  # a disk of its own
    require("disks", "that each disk needs space of its own")
    monkeypatch.setattr(machine, "free_disk", lambda _: 0)

    text = _refusal(locked_target(provider="system", disk=GIB), apart)

    assert f"the disk of {apart.work} is too small: 0 bytes are free, 1.0" in text
    assert f"the disk of {apart.cache} is too small: 0 bytes are free, 1.3 GiB" in text


def _problems_of(target: Target, workspace: Workspace, root: Path | None) -> list[str]:
    """Return the problems of a build for another machine with this root folder."""
    settings = BuildRequest(target_root=root)
    facts = read_machine(settings, own_python(), workspace.environ, platform=target.platform)
    job = Job(target=target, settings=settings, workspace=workspace, machine=facts)
    with pytest.raises(CuwheelError) as caught:
        check(job, "early")
    return [caught.value.what, caught.value.why, caught.value.fix]


def _refusal(target: Target, workspace: Workspace) -> str:
    with pytest.raises(PreflightError) as caught:
        check(make_job(target, workspace), "early")
    return str(caught.value)


def _conda_target(**changes: Any) -> Target:
    return locked_target(provider="conda", toolkit="12.2", **changes)


def test_records_of_an_earlier_run_fail_no_early_check(workspace: Workspace) -> None:
    """They may be of another toolchain, or the toolchain was corrected since."""
    folder = workspace.work / "nothing"
    facts = {"version": "13.0.88", "provider": "system", "fingerprint": "", "pinned": False}
    workspace.save("toolchain", Toolchain(home=folder, **facts))  # type: ignore[arg-type]
    environment = Environment(
        python=folder, site_packages=folder, fingerprint="", base_python=folder, base_version=""
    )
    workspace.save("environment", environment)
    target = locked_target(build=CMake(define={"FLAGS": "{link_flags}"}))

    check(make_job(target, workspace), "early")


@pytest.mark.parametrize("provider", ["debian", "redist"])
def test_provider_without_the_release_is_refused_early(workspace: Workspace, provider: str) -> None:
    with pytest.raises(LockError) as caught:
        check(make_job(locked_target(provider=provider), workspace), "early")

    assert f"envs/cuda130/{provider}.lock" in caught.value.why
    assert f"without `--toolchain {provider}`" in caught.value.fix
