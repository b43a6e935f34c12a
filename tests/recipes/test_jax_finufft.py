"""The recipe of jax-finufft: its options, what its build is given, and what its patch does with it.

Upstream's source is fetched and built in tests/e2e/build/test_jax_finufft.py. Here CMake itself
reads the files that the patch leaves, with folders of the tests in place of xsimd, FFTW and the
toolkit.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from unidiff.patch import PatchSet

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import Finished, run
from cuwheel.build.pipeline.machine_checks import check_system_packages
from cuwheel.build.pipeline.stages.environment import environment
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Recipe
from tests.support.factories import make_job, make_target, make_workspace

PATCH = ROOT / "patches" / "jax_finufft" / "0001-build-from-what-is-given.patch"
MODULES = ("setupCPM", "setupXSIMD", "setupFFTW", "setupCCCL")

# Where upstream says what an option means.
DOCUMENTED = {
    "JAX_FINUFFT_USE_CUDA": "https://github.com/flatironinstitute/jax-finufft#configuring-the-build",
    "FINUFFT_ARCH_FLAGS": "https://github.com/flatironinstitute/jax-finufft#configuring-the-build",
    "XSIMD_INCLUDE_DIR": "patches/jax_finufft/0001-build-from-what-is-given.patch",
}

XSIMD = "#define XSIMD_VERSION_MAJOR {major}\n#define XSIMD_VERSION_MINOR 1\n"
PROJECT = """
cmake_minimum_required(VERSION 3.24)
project(asks LANGUAGES NONE)
set(CUDAToolkit_INCLUDE_DIRS "$ENV{{CUDA_HOME}}/include")
set(FINUFFT_USE_OPENMP ON)
{includes}
get_target_property(libraries finufft_fftlibs INTERFACE_LINK_LIBRARIES)
message(STATUS "xsimd: ${{XSIMD_INCLUDE_DIR}}")
message(STATUS "fftw: ${{FFTW_INCLUDE_DIRS}} ${{libraries}}")
message(STATUS "cccl: ${{CCCL_INCLUDE_DIR}}")
{more}
"""


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    found = find_recipe("jax-finufft", load_catalogue([ROOT])).recipe
    assert found
    return found


@pytest.fixture(scope="module")
def cmake(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """The CMake of a build environment that other tests use too, and which is small."""
    workspace = make_workspace(tmp_path_factory.mktemp("cmake"), cache=shared_cache)
    root = ROOT / "tests" / "project"
    found = find_recipe("tiny-skbuild", load_catalogue([root])).recipe
    assert found
    target = make_target(root=root, name=found.name, requires=found.requires)
    return environment(make_job(target, workspace)).python.with_name("cmake")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with everything that the build asks for."""
    write_file(tmp_path / "site" / "xsimd/config/xsimd_config.hpp", XSIMD.format(major=14))
    write_file(tmp_path / "cuda" / "include/fftw3.h")
    write_file(tmp_path / "cuda" / "include/cccl/cuda/std/mdspan")
    for name in ("fftw3", "fftw3f", "fftw3_omp", "fftw3f_omp"):
        write_file(tmp_path / "cuda" / "lib" / f"lib{name}.so")
    return tmp_path


def write_file(path: Path, content: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def configure(cmake: Path, given: Path, more: str = "") -> Finished:
    """Run the patched files, with nothing of the system to find, as with a conda toolchain."""
    for file in PatchSet.from_filename(str(PATCH)):
        lines = (line for hunk in file for line in hunk if not line.is_removed)
        name = file.path.rpartition("/")[2]
        (given / name).write_text("".join(line.value for line in lines))
    includes = "\n".join(f"include({name}.cmake)" for name in MODULES)
    (given / "CMakeLists.txt").write_text(PROJECT.format(includes=includes, more=more))
    options = ("-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", f"-DXSIMD_INCLUDE_DIR={given / 'site'}")
    return run(
        [cmake, "-G", "Ninja", "-S", given, "-B", given / "build", *options],
        env={"PATH": f"{cmake.parent}:{os.defpath}", "CUDA_HOME": str(given / "cuda")},
        check=False,
    )


def test_takes_everything_from_what_is_given(recipe: Recipe, cmake: Path, given: Path) -> None:
    """CCCL lies elsewhere in an older toolkit."""
    done = configure(cmake, given)
    (given / "cuda/include/cccl/cuda").rename(given / "cuda/include/cuda")
    (given / "build" / "CMakeCache.txt").unlink()
    older = configure(cmake, given)

    cuda = given / "cuda"
    names = ("fftw3", "fftw3f", "fftw3_omp", "fftw3f_omp")
    libraries = ";".join(f"{cuda}/lib/lib{name}.so" for name in names)
    assert set(getattr(recipe.build, "define", {})) == set(DOCUMENTED)
    assert f"xsimd: {given}/site\n" in done.output
    assert f"fftw: {cuda}/include {libraries}\n" in done.output
    assert f"cccl: {cuda}/include/cccl\n" in done.output
    assert f"cccl: {cuda}/include\n" in older.output


@pytest.mark.parametrize(
    ("missing", "more", "reason"),
    [
        ("cuda/include/fftw3.h", "", "Could not find"),
        ("cuda/lib/libfftw3f_omp.so", "", "Could not find"),
        ("cuda/include/cccl/cuda/std/mdspan", "", "Could not find"),
        ("", "CPMAddPackage(NAME ducc0)", "nothing is downloaded in this build"),
        ("xsimd 14", "", "FINUFFT needs xsimd 14 or newer, "),
    ],
)
def test_stops_where_something_is_missing(
    cmake: Path, given: Path, missing: str, more: str, reason: str
) -> None:
    if missing == "xsimd 14":
        write_file(given / "site/xsimd/config/xsimd_config.hpp", XSIMD.format(major=8))
    elif missing:
        (given / missing).unlink()

    done = configure(cmake, given, more)

    assert done.status != 0
    assert reason in " ".join(done.output.split())


@pytest.mark.parametrize("toolkit", ["12.2", "12.8", "13.0"])
def test_conda_toolchain_holds_what_recipe_needs(
    recipe: Recipe, tmp_path: Path, toolkit: str
) -> None:
    target = make_target(toolkit=toolkit, provider="conda", needs=recipe.needs)

    assert not any(check_system_packages(make_job(target, make_workspace(tmp_path))))


def test_names_conda_package_that_toolchain_lacks(tmp_path: Path) -> None:
    needs = {"conda": ("fftw", "no-such-package")}
    target = make_target(toolkit="12.2", provider="conda", needs=needs)

    [problem] = check_system_packages(make_job(target, make_workspace(tmp_path)))

    assert "needs no-such-package" in problem.why
    assert problem.fix == (
        f"add no-such-package to {ROOT}/envs/cuda122/environment.yml, then "
        "`nox -s lock -- toolchain:122:conda`"
    )
