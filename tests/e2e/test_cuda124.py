"""CUDA 12.4 with nvcc from Debian's packages: its tables, and a tiny package built with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cuwheel.base.formats.binaries.cudart import linked_cudart
from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.paths import ROOT
from cuwheel.base.system.compilers import archs_of, newest_gcc_for
from cuwheel.base.system.process import run
from cuwheel.build.environments.lock_file import pinned_version, read_pins
from cuwheel.build.locks.lock_jobs import lock_jobs
from cuwheel.build.locks.resolve import resolve_locks
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.toolchains.provide import provide_toolchain
from cuwheel.build.workspace.records import Toolchain
from cuwheel.check.audit.verdict import audit_wheel
from cuwheel.check.cuda.components import COMPONENTS, Component, requirement_for
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.engine import Engine, make_engine
from tests.support.factories import make_workspace
from tests.support.requirements import require
from tests.support.toolchains.small_toolchain import copy_project

pytestmark = pytest.mark.nightly  # the packages are 2 GB to download

TOOLKIT = toolkit_by_release("12.4")
_LOCK = ROOT / "envs" / "cuda124" / "pypi.lock"
_RUNTIME = "nvidia-cuda-runtime-cu12"
_PINNED = {pin.requirement.name for pin in read_pins(_LOCK)}
_COMPONENTS = [row for row in COMPONENTS if row.cuda == 12 and row.distribution in _PINNED]


@pytest.fixture(scope="module")
def toolchain(module_path: Path, shared_cache: Path) -> Toolchain:
    require("debian-archive", "that CUDA 12.4 from Debian's packages is whole")
    workspace = make_workspace(module_path, cache=shared_cache)
    return provide_toolchain(TOOLKIT, "debian", workspace)


@pytest.fixture(scope="module")
def engine(module_path: Path, shared_cache: Path) -> Engine:
    """The engine with a project whose package is for CUDA 12.4."""
    require("debian-archive", "that packages are built with CUDA 12.4 from Debian's packages")
    project = copy_project(module_path / "project")
    recipe = project / "recipes" / "tiny_capi.py"
    runtime = pinned_version(_LOCK, _RUNTIME)
    text = recipe.read_text().replace('"13.0"', '"12.4"')
    text = text.replace("nvidia-cuda-runtime==13.0.96", f"{_RUNTIME}=={runtime}")
    recipe.write_text(text.replace('expect="42"', 'expect="-1"'))  # the answer of a CUDA 12
    workspace = make_workspace(module_path, cache=shared_cache)
    resolve_locks(lock_jobs(["build:tiny-capi"], load_catalogue([project])), workspace)
    return dataclasses.replace(make_engine(module_path, project, shared_cache), tag="124")


def test_table_holds_what_nvcc_says(toolchain: Toolchain, tmp_path: Path) -> None:
    assert toolchain.version == TOOLKIT.nvcc
    assert archs_of(toolchain.home / "bin" / "nvcc", tmp_path) == set(TOOLKIT.archs)
    assert newest_gcc_for(toolchain.home) == TOOLKIT.max_gcc


def test_home_has_the_usual_layout(toolchain: Toolchain) -> None:
    home = toolchain.home

    assert (home / "lib64").is_symlink()
    for name in ("include/cuda_runtime.h", "include/cublas_v2.h", "lib64/libcudart_static.a"):
        assert (home / name).is_file(), name
    assert (home / "lib64" / "libcublas.so").readlink() == Path("libcublas.so.12")
    profile = (home / "bin" / "nvcc.profile").read_text()
    assert "/usr" not in profile


def test_nvcc_compresses_in_one_way_only(toolchain: Toolchain) -> None:
    """`--compress-mode` came with 12.8, as the failure catalogue says."""
    options = run([toolchain.home / "bin" / "nvcc", "--help"], env={"PATH": "/usr/bin:/bin"}).output

    assert "--no-compress" in options
    assert "--compress-mode" not in options


@pytest.mark.parametrize("row", _COMPONENTS, ids=[row.name for row in _COMPONENTS])
def test_component_is_as_its_row_says(toolchain: Toolchain, row: Component) -> None:
    for pattern in row.sonames:
        [file] = (toolchain.home / "lib").glob(pattern)
        with file.open("rb") as stream:
            assert read_elf(stream).soname == file.name
    required = Requirement(requirement_for(row, TOOLKIT, ""))
    assert required.specifier.contains(str(pinned_version(_LOCK, row.distribution)))


def test_links_separately_compiled_code_statically(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "fill.cu"
    source.write_text(
        "__global__ void fill(int *a) { *a = 1; }\nint main() { fill<<<1, 1>>>(0); }\n"
    )
    nvcc, program = toolchain.home / "bin" / "nvcc", tmp_path / "fill"

    run(
        [nvcc, "-rdc=true", "-arch=sm_90", source, "-o", program],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
    )

    with program.open("rb") as stream:
        elf = read_elf(stream)
        code = elf.section(".text")
        assert code
        assert linked_cudart(stream, code, elf.machine) == TOOLKIT.release
    assert "libcudart.so.12" not in elf.needed


def test_builds_a_package_without_asking_for_a_provider(engine: Engine) -> None:
    done = engine.build("tiny-capi")

    assert done.status == 0, done.output
    [wheel] = engine.wheels()
    assert int(wheel.stem.rpartition("manylinux_2_")[2].split("_")[0]) <= 31
    statement = wheel.with_name(f"{wheel.name}.provenance.json").read_text()
    assert "pkg:deb/debian/nvidia-cuda-toolkit@12.4.131" in statement
    assert "pkg:deb/debian/g++-10@" in statement
    found = audit_wheel(wheel)
    [(_, library)] = found.case.host_libraries
    assert "libcudart.so.12" in library.needed
    assert found.case.requires == (f"{_RUNTIME}>=12.4,<13",)
    assert (found.archs, found.majors) == (("90",), (TOOLKIT.major,))
    assert found.min_driver == ((TOOLKIT.major, TOOLKIT.min_driver),)
