"""CUDA 13 from NVIDIA's wheels: what the tables say, and a package built with each release.

Of the minor releases the one that today's PyTorch takes and the newest are tried each time, the
others before a release.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.compilers import archs_of, newest_gcc_for
from cuwheel.build.compile.canary import Canary, run_canary
from cuwheel.build.compile.toolkit_view import ViewPaths
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.locks.lock_jobs import lock_jobs
from cuwheel.build.locks.resolve import resolve_locks
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.check.cuda.toolkits import TOOLKITS, toolkit_by_release
from tests.support.build.launchers import BASE_PYTHON
from tests.support.engine import Engine, make_engine
from tests.support.factories import make_workspace
from tests.support.toolchains.small_toolchain import copy_project, write_small_lock

_RELEASES = [one.release for one in TOOLKITS if one.major == 13 and one.release != "13.0"]
_OFTEN = {_RELEASES[-1]}

# Whether cicc's `-keep` leaves the output of its front end, by which device code of one platform
# is found for another (docs/adr/0044).
SHARES_DEVICE_CODE = {"132": True, "135": False}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(release, marks=pytest.mark.e2e if release in _OFTEN else pytest.mark.nightly)
        for release in _RELEASES
    ],
)
def engine(request: pytest.FixtureRequest, module_path: Path, shared_cache: Path) -> Engine:
    """The engine with a project whose package is for this release, and its small toolchain."""
    toolkit = toolkit_by_release(request.param)
    folder = module_path / toolkit.tag
    project = copy_project(folder / "project")
    write_small_lock(project, tag=toolkit.tag)
    runtime = pinned_version(ROOT / f"envs/cuda{toolkit.tag}/pypi.lock", "nvidia-cuda-runtime")
    recipe = project / "recipes" / "tiny_skbuild.py"
    text = recipe.read_text().replace('"13.0"', f'"{toolkit.release}"')
    recipe.write_text(text.replace("runtime==13.0.96", f"runtime=={runtime}"))
    workspace = make_workspace(folder, cache=shared_cache)
    resolve_locks(lock_jobs(["build:tiny-skbuild"], load_catalogue([project])), workspace)
    made = make_engine(folder, project, shared_cache)
    return dataclasses.replace(made, tag=toolkit.tag)


@pytest.fixture
def cuda_home(
    engine: Engine, tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The toolkit of that project."""
    monkeypatch.setenv("CUWHEEL_PROJECT", str(engine.project))
    workspace = make_workspace(tmp_path, cache=shared_cache)
    return provide_toolchain(toolkit_by_release(engine.tag), "pypi", workspace).home


def test_table_holds_archs(engine: Engine, cuda_home: Path, tmp_path: Path) -> None:
    found = archs_of(cuda_home / "bin" / "nvcc", tmp_path)

    assert found == set(toolkit_by_release(engine.tag).archs)


def test_table_holds_newest_gcc(engine: Engine, cuda_home: Path) -> None:
    assert newest_gcc_for(cuda_home) == toolkit_by_release(engine.tag).max_gcc


def test_nvcc_gives_equal_objects_everywhere(
    engine: Engine, cuda_home: Path, tmp_path: Path
) -> None:
    gcc, gxx, unused = Path("/usr/bin/gcc"), Path("/usr/bin/g++"), Path("unused")
    places = ViewPaths(
        view=unused, launcher=unused, toolkit=cuda_home, python=BASE_PYTHON, cc=gcc, cxx=gxx
    )

    found = run_canary(places, "x", tmp_path)

    if engine.tag in SHARES_DEVICE_CODE:
        assert bool(found.device_tools) == SHARES_DEVICE_CODE[engine.tag]
    assert dataclasses.replace(found, device_tools="") == Canary(flags=("path", "seed", "objtemp"))


def test_builds_a_package_twice_with_the_same_bytes(engine: Engine) -> None:
    first = engine.build("tiny-skbuild", "--no-cache")
    [wheel] = engine.wheels()
    before = wheel.read_bytes()
    again = engine.build("tiny-skbuild", "--no-cache")

    assert (first.status, again.status) == (0, 0), first.output + again.output
    assert wheel.read_bytes() == before
