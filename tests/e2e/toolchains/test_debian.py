"""CUDA with nvcc from Debian's packages: its tables, and a tiny package built with it."""

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
from cuwheel.check.cuda.components import COMPONENTS, requirement_for
from cuwheel.check.cuda.toolkits import Toolkit, toolkit_by_release
from tests.support.engine import Engine, make_engine
from tests.support.factories import make_workspace
from tests.support.requirements import require
from tests.support.toolchains.small_toolchain import copy_project

pytestmark = pytest.mark.nightly  # the packages are 2 GB to download for each release

RELEASES = ("11.8", "12.4")


@pytest.fixture(scope="module", params=RELEASES)
def toolkit(request: pytest.FixtureRequest) -> Toolkit:
    return toolkit_by_release(request.param)


def lock_of(toolkit: Toolkit) -> Path:
    return ROOT / "envs" / f"cuda{toolkit.tag}" / "pypi.lock"


def runtime_of(toolkit: Toolkit) -> str:
    return f"nvidia-cuda-runtime-cu{toolkit.major}"


@pytest.fixture(scope="module")
def toolchain(toolkit: Toolkit, module_path: Path, shared_cache: Path) -> Toolchain:
    require("debian-archive", "that CUDA from Debian's packages is whole")
    workspace = make_workspace(module_path, cache=shared_cache)
    return provide_toolchain(toolkit, "debian", workspace, host_compiler="gcc10")


@pytest.fixture(scope="module")
def engine(toolkit: Toolkit, module_path: Path, shared_cache: Path) -> Engine:
    """The engine with a project whose package is for that release."""
    require("debian-archive", "that packages are built with CUDA from Debian's packages")
    folder = module_path / toolkit.tag
    project = copy_project(folder / "project")
    recipe = project / "recipes" / "tiny_capi.py"
    runtime = runtime_of(toolkit)
    version = pinned_version(lock_of(toolkit), runtime)
    text = recipe.read_text().replace('"13.0"', f'"{toolkit.release}"')
    text = text.replace("nvidia-cuda-runtime==13.0.96", f"{runtime}=={version}")
    recipe.write_text(text.replace('expect="42"', 'expect="-1"'))  # of a CUDA before 13
    workspace = make_workspace(folder, cache=shared_cache)
    resolve_locks(lock_jobs(["build:tiny-capi"], load_catalogue([project])), workspace)
    return dataclasses.replace(make_engine(folder, project, shared_cache), tag=toolkit.tag)


def test_table_holds_what_nvcc_says(toolkit: Toolkit, toolchain: Toolchain, tmp_path: Path) -> None:
    assert toolchain.version == toolkit.nvcc
    assert archs_of(toolchain.home / "bin" / "nvcc", tmp_path) == set(toolkit.archs)
    assert newest_gcc_for(toolchain.home) == toolkit.max_gcc


def test_home_has_the_usual_layout(toolkit: Toolkit, toolchain: Toolchain) -> None:
    home = toolchain.home

    assert (home / "lib64").is_symlink()
    for name in ("include/cuda_runtime.h", "include/cublas_v2.h", "lib64/libcudart_static.a"):
        assert (home / name).is_file(), name
    assert (home / "lib64" / "libcublas.so").readlink() == Path(f"libcublas.so.{toolkit.major}")
    profile = (home / "bin" / "nvcc.profile").read_text()
    assert "/usr" not in profile


def test_nvcc_compresses_in_one_way_only(toolchain: Toolchain) -> None:
    """`--compress-mode` came with 12.8, as the failure catalogue says."""
    options = run([toolchain.home / "bin" / "nvcc", "--help"], env={"PATH": "/usr/bin:/bin"}).output

    assert "--no-compress" in options
    assert "--compress-mode" not in options


def test_components_are_as_their_rows_say(toolkit: Toolkit, toolchain: Toolchain) -> None:
    pinned = {pin.requirement.name for pin in read_pins(lock_of(toolkit))}
    rows = [row for row in COMPONENTS if row.cuda == toolkit.major and row.distribution in pinned]

    assert rows
    for row in rows:
        for pattern in row.sonames:
            [file] = (toolchain.home / "lib").glob(pattern)
            with file.open("rb") as stream:
                assert read_elf(stream).soname == file.name
        required = Requirement(requirement_for(row, toolkit, ""))
        version = pinned_version(lock_of(toolkit), row.distribution)
        assert required.specifier.contains(str(version)), row.name


def test_links_separately_compiled_code_statically(
    toolkit: Toolkit, toolchain: Toolchain, tmp_path: Path
) -> None:
    source = tmp_path / "fill.cu"
    source.write_text(
        "__global__ void fill(int *a) { *a = 1; }\nint main() { fill<<<1, 1>>>(0); }\n"
    )
    nvcc, program = toolchain.home / "bin" / "nvcc", tmp_path / "fill"
    compiler = ("-ccbin", toolchain.cxx) if toolchain.cxx else ()

    run(
        [nvcc, *compiler, "-rdc=true", "-arch=sm_90", source, "-o", program],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
    )

    with program.open("rb") as stream:
        elf = read_elf(stream)
        code = elf.section(".text")
        assert code
        assert linked_cudart(stream, code, elf.machine) == toolkit.release
    assert not any(name.startswith("libcudart") for name in elf.needed)


def test_builds_a_package_without_asking_for_a_provider(toolkit: Toolkit, engine: Engine) -> None:
    done = engine.build("tiny-capi")

    assert done.status == 0, done.output
    [wheel] = engine.wheels()
    assert int(wheel.stem.rpartition("manylinux_2_")[2].split("_")[0]) <= 31
    statement = wheel.with_name(f"{wheel.name}.provenance.json").read_text()
    assert f"pkg:deb/debian/nvidia-cuda-toolkit@{toolkit.nvcc}" in statement
    assert "pkg:deb/debian/g++-10@" in statement
    found = audit_wheel(wheel)
    [(_, library)] = found.case.host_libraries
    assert any(name.startswith(f"libcudart.so.{toolkit.major}") for name in library.needed)
    [required] = found.case.requires
    assert required.startswith(runtime_of(toolkit))
    assert (found.archs, found.majors) == (("90",), (toolkit.major,))
    assert found.min_driver == ((toolkit.major, toolkit.min_driver),)
