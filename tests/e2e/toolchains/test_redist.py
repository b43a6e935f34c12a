"""A toolchain of NVIDIA's archives as a user has it: served, locked, installed, built with.

The archives are made of the files of NVIDIA's CUDA 13.0 wheels, in the layout and under the names
of its redistributable ones (support/toolchains/redist_archives.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.toolchains.redist.lock_file import RELEASES, RedistLock, read_redist_lock
from cuwheel.build.toolchains.redist.manifest import MIRROR_VARIABLE
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.engine import TIME_LIMIT, Engine, make_engine, use_environment
from tests.support.factories import make_workspace
from tests.support.requirements import require
from tests.support.servers.site import serving_site
from tests.support.toolchains.redist_archives import (
    OWN,
    SBSA,
    parts_of_wheels,
    write_input,
    write_release,
)

pytestmark = pytest.mark.e2e

TOOLKIT = toolkit_by_release("13.0")


@pytest.fixture(scope="module")
def compute(module_path: Path, cuda_home: Path) -> Path:
    """NVIDIA's folder, with compiler and runtime for x86-64."""
    write_release(module_path / "compute", parts_of_wheels(cuda_home), (OWN,))
    return module_path / "compute"


@pytest.fixture(scope="module")
def user(
    module_path: Path, compute: Path, cuda_home: Path, project: Path, shared_cache: Path
) -> Iterator[Engine]:
    """Somebody with a `redist.in` of their own, who has locked and installed the toolchain."""
    write_input(module_path / "project", parts_of_wheels(cuda_home))
    cache = module_path / "cache"
    cache.mkdir()
    (cache / "uv").symlink_to(shared_cache / "uv")
    with serving_site(compute) as address:
        engine = make_engine(module_path, module_path / "project", cache)
        engine.variables.update(
            {
                MIRROR_VARIABLE: address,
                "CUWHEEL_PROJECT": os.pathsep.join([str(engine.project), str(project)]),
            }
        )
        for words in (("lock", "toolchain:130:redist"), ("lock-check",)):
            run_cuwheel(engine, *words)
        yield engine
    remove_tree(cache / "toolchains")


def run_cuwheel(engine: Engine, *words: str) -> str:
    """Run a command of cuwheel to its good end; give what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "cuwheel", *words],
        env=engine.environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIME_LIMIT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def made(user: Engine) -> Engine:
    """The engine that has built a package with it, smoke test included."""
    done = user.build("tiny-skbuild", "--toolchain", "redist")
    assert done.status == 0, done.output
    return user


@pytest.mark.nightly
def test_wheel_is_that_of_the_same_files_from_wheels(
    made: Engine, built: Callable[[str], Engine]
) -> None:
    """nvcc, its headers and the runtime are the same, only how they got here differs."""
    assert _libraries(made) == _libraries(built("tiny-skbuild"))


def _libraries(engine: Engine) -> dict[str, bytes]:
    [wheel] = engine.wheels()
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}


def test_provenance_names_archives(made: Engine) -> None:
    [path] = made.dist.glob("*.provenance.json")
    definition = json.loads(path.read_text())["predicate"]["buildDefinition"]

    materials = {one["name"]: one for one in definition["resolvedDependencies"]}
    [nvcc] = [one for name, one in materials.items() if name.startswith("redist cuda_nvcc")]
    stem = f"cuda_nvcc-{OWN}-13.0.88-archive.tar.xz"
    assert nvcc["uri"] == f"{RELEASES}/cuda/redist/cuda_nvcc/{OWN}/{stem}"
    [locked] = [item for item in _lock_of(made).archives if item.name == "cuda_nvcc"]
    assert nvcc["digest"]["sha256"] == locked.sha256


def _lock_of(engine: Engine) -> RedistLock:
    return read_redist_lock(engine.project / "envs" / "cuda130" / "redist.lock")


def test_verifies_lock(user: Engine) -> None:
    output = run_cuwheel(user, "lock-verify", "toolchain:130:redist", "--json")

    [document] = [line for line in output.splitlines() if line.startswith("{")]
    [lock] = json.loads(document)["locks"]
    sizes = {file["sha256"]: file["size"] for file in lock["files"]}
    assert sizes == {archive.sha256: archive.size for archive in _lock_of(user).archives}
    assert "every hash and size verified" in _lock_of(user).files


@pytest.fixture
def arm_home(
    user: Engine, compute: Path, project: Path, shared_cache: Path, tmp_path: Path
) -> Path:
    """The home for arm64, of archives of both platforms."""
    require("cross-gcc", "that an arm64 home of archives links")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUWHEEL_PROJECT", str(project))
        shared = make_workspace(tmp_path, cache=shared_cache)
        wheels = provide_toolchain(TOOLKIT, "pypi", shared, machine="aarch64").home
    write_release(compute, parts_of_wheels(wheels), (SBSA,))
    run_cuwheel(user, "lock", "toolchain:130:redist")
    with pytest.MonkeyPatch.context() as patch:
        use_environment(user, patch)
        workspace = make_workspace(tmp_path, cache=user.cache)
        return provide_toolchain(TOOLKIT, "redist", workspace, machine="aarch64").home


def test_links_for_arm64(arm_home: Path, tmp_path: Path) -> None:
    """Headers and libraries of arm64's archives, and this machine's nvcc."""
    (tmp_path / "kernel.cu").write_text("__global__ void f() {}\nvoid g() { f<<<1, 1>>>(); }\n")
    flags = ("-arch=sm_90", "-shared", "-Xcompiler=-fPIC", "-cudart=shared")
    compiler = "-ccbin=aarch64-linux-gnu-g++"
    argv: list[str | Path] = [
        arm_home / "bin" / "nvcc",
        *flags,
        compiler,
        "-o",
        "kernel.so",
        "kernel.cu",
    ]
    run(argv, env={"PATH": os.defpath}, cwd=tmp_path)
    with (tmp_path / "kernel.so").open("rb") as stream:
        elf = read_elf(stream)
    assert (elf.machine, "libcudart.so.13" in elf.needed) == ("EM_AARCH64", True)
