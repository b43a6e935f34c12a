"""The recipe of jaxmg, on a package of ours with the same build interface.

Neither upstream's source nor what its build downloads is ever fetched here: the resources are
small ones of the test under the recipe's own names, and the toolkit is the tests' own.
"""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.environments.lock_file import render
from cuwheel.build.locks.lock_jobs import lock_jobs
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import Recipe
from cuwheel.build.recipe.source import Archive, GitCommit
from cuwheel.build.sandbox.backends import choose_sandbox
from tests.support.engine import PACKAGES, Engine, make_engine
from tests.support.factories import commit_all

STANDIN = PACKAGES / "jaxmg_standin"
SOLVERS = ("cyclic", "potrs", "potrs_mp", "potri", "syevd", "syevd_no_V")

# Where upstream, or the tool it uses, says what an option means.
_CPM = "https://github.com/cpm-cmake/CPM.cmake/blob/master/README.md#local-package-override"
_CMAKE = "https://cmake.org/cmake/help/latest/variable/CMAKE_PROJECT_PROJECT-NAME_INCLUDE.html"
DOCUMENTED = {
    "CPM_absl_SOURCE": _CPM,
    "CPM_jax_SOURCE": _CPM,
    "CPM_XLA_SOURCE": _CPM,
    "CMAKE_PROJECT_JaxSolve_INCLUDE": _CMAKE,
    "CUWHEEL_CPM": "patches/jaxmg/0001-build-from-what-is-given.patch",
    "CUWHEEL_CUPTI": "patches/jaxmg/0001-build-from-what-is-given.patch",
    "CUDA_cupti_LIBRARY": "https://cmake.org/cmake/help/latest/module/FindCUDAToolkit.html",
}

# The interface of CPM.cmake that matters here: a local source where one is given, else a download.
CPM = """
function(CPMAddPackage)
  cmake_parse_arguments(asked "" "NAME;GIT_REPOSITORY;GIT_TAG;DOWNLOAD_ONLY" "" ${ARGN})
  set(name ${asked_NAME})
  if(NOT CPM_${name}_SOURCE)
    message(FATAL_ERROR "CPM: ${name} would be downloaded from ${asked_GIT_REPOSITORY}")
  endif()
  message(STATUS "CPM: ${name} from ${CPM_${name}_SOURCE}")
  set(${name}_SOURCE_DIR "${CPM_${name}_SOURCE}" PARENT_SCOPE)
  if(NOT asked_DOWNLOAD_ONLY)
    add_subdirectory("${CPM_${name}_SOURCE}" "${CMAKE_BINARY_DIR}/_deps/${name}")
  endif()
endfunction()
"""
ABSL = """
project(absl LANGUAGES CXX)
foreach(part strings status statusor)
  add_library(absl_${part} STATIC part.cc)
  add_library(absl::${part} ALIAS absl_${part})
endforeach()
"""
JAX_HEADER = "namespace jax { int cupti_version(); }\n"
JAX_SOURCE = """
#include "jaxlib/gpu/gpu_kernel_helpers.h"
#include "third_party/gpus/cuda/extras/CUPTI/include/cupti.h"

namespace jax {
int cupti_version() {
  uint32_t version = 0;
  return cuptiGetVersion(&version) == CUPTI_SUCCESS ? version : -1;
}
}
"""
XLA_HEADER = "enum { XLA_FFI_DONE = 0, XLA_FFI_FAILED = 1 };\n"

# Below the project of the test; only what the test needs to change differs from the real recipe.
RECIPE = """
import dataclasses, runpy
from cuwheel import Archive, GitCommit

REAL = runpy.run_path({real!r})["RECIPE"]
SOURCES = {sources}
# The build environment has CUDA 12's, for the recipe's own toolkit.
CUPTI = {{
    "CUWHEEL_CUPTI": "{{cuda_home}}/include",
    "CUDA_cupti_LIBRARY": "{{cuda_home}}/lib64/libcupti.so",
}}
RECIPE = dataclasses.replace(
    REAL,
    toolkits=("13.0",),
    never_built=(),
    archs=("90",),
    ptx="none",
    smoke=dataclasses.replace(REAL.smoke, requires=("nvidia-cuda-runtime",)),
    build=dataclasses.replace(REAL.build, define={{**REAL.build.define, **CUPTI}}),
    resources=tuple(
        dataclasses.replace(resource, source=SOURCES[resource.name])
        for resource in REAL.resources
    ),
    memory_per_job=512 << 20,
    disk=256 << 20,
)
"""


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    found = find_recipe("jaxmg", load_catalogue([ROOT])).recipe
    assert found
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder with the recipe, its patch and locks, and small resources."""
    return write_project(tmp_path_factory.mktemp("jaxmg"))


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory,
    shared_cache: Path,
    whole_cuda_home: Path,
    project: Path,
) -> Engine:
    """An engine that has built the stand-in, once for all tests."""
    assert whole_cuda_home.is_dir()
    folder = tmp_path_factory.mktemp("built")
    engine = make_engine(folder, project, shared_cache)
    done = engine.build("jaxmg", "--source", str(STANDIN), "--keep-work")
    assert done.status == 0, done.output
    return engine


def write_project(folder: Path) -> Path:
    for name in ("recipes", "envs/build", "envs/smoke"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(ROOT / "patches" / "jaxmg", folder / "patches" / "jaxmg")
    shutil.copy(ROOT / "envs" / "build" / "jaxmg.lock", folder / "envs" / "build")
    write_recipe(folder, {name: repr(source) for name, source in make_resources(folder).items()})
    write_smoke_lock(folder)
    return folder


def write_smoke_lock(project: Path) -> None:
    """The wheels that hold CUDA 13's libraries; JAX isn't needed."""
    [job] = lock_jobs(["smoke:jaxmg"], load_catalogue([project]))
    toolchain = (ROOT / "envs" / "cuda130" / "pypi.lock").read_text()
    job.lock.write_text(
        render(toolchain, input_text=job.input_text, command=job.command, cooldown="")
    )


def write_recipe(project: Path, sources: dict[str, str]) -> None:
    text = ", ".join(f"{name!r}: {source}" for name, source in sources.items())
    recipe = RECIPE.format(real=str(ROOT / "recipes" / "jaxmg.py"), sources=f"{{{text}}}")
    (project / "recipes" / "jaxmg.py").write_text(recipe)


def change_recipe(project: Path, folder: Path, lines: str) -> Path:
    """A copy of the project whose recipe ends with these lines."""
    other = folder / "project"
    shutil.copytree(project, other)
    with (other / "recipes" / "jaxmg.py").open("a") as stream:
        stream.write(lines)
    return other


def make_resources(folder: Path) -> dict[str, Archive | GitCommit]:
    """Archives and a repository with just enough in them, as sources of a recipe."""
    trees = {
        "abseil-cpp": {"CMakeLists.txt": ABSL, "part.cc": ""},
        "jax": {
            "jaxlib/gpu/gpu_kernel_helpers.h": JAX_HEADER,
            "jaxlib/gpu/gpu_kernel_helpers.cc": JAX_SOURCE,
        },
        "XLA": {"xla/ffi/api/ffi.h": XLA_HEADER},
    }
    for name, files in trees.items():
        for path, content in files.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(content)
    (folder / "CPM.cmake").write_text(CPM)
    archives = {name: pack(folder / name) for name in ("abseil-cpp", "jax")}
    archives["CPM.cmake"] = folder / "CPM.cmake"
    return {name: archive_of(path) for name, path in archives.items()} | {
        "XLA": commit_of(folder / "XLA")
    }


def pack(folder: Path) -> Path:
    path = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, f"{folder.name}-1.0")
    return path


def archive_of(path: Path) -> Archive | GitCommit:
    return Archive(url=path.as_uri(), sha256=sha256_of_file(path))


def commit_of(folder: Path) -> GitCommit:
    return GitCommit(repository=folder.as_uri(), commit=commit_all(folder))


def test_passes_only_documented_options_and_every_resource(recipe: Recipe) -> None:
    define = getattr(recipe.build, "define", {})

    handed = " ".join(define.values())
    assert set(define) == set(DOCUMENTED)
    assert [r.name for r in recipe.resources if f"{{resources}}/{r.to}" not in handed] == []


@pytest.mark.nightly
def test_configures_without_network(built: Engine) -> None:
    [log] = built.work.glob("*/logs/build.log")

    said = log.read_text()

    for name in ("absl", "jax", "XLA"):
        work = Path("/cuwheel") if choose_sandbox() != "none" else log.parents[1]
        assert f"CPM: {name} from {work / 'resources' / name}" in said
    assert "would be downloaded" not in said


@pytest.mark.nightly
def test_packs_what_cmake_installed(built: Engine, project: Path) -> None:
    [wheel], [record] = built.wheels(), built.work.glob("*/stages/source.json")

    with zipfile.ZipFile(wheel) as archive:
        libraries = {name for name in archive.namelist() if name.endswith(".so")}
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(name).decode().splitlines()

    assert wheel.name.startswith("jaxmg-0.0.2+cu130.source.h")
    assert libraries == {f"jaxmg/bin/lib{name}.so" for name in SOLVERS}
    assert {"Provides-Extra: cuda12", "Provides-Extra: docs"} <= set(lines)
    assert 'Requires-Dist: jax[cuda12]>=0.6.2; extra == "cuda12"' in lines
    assert f"git+{(project / 'XLA').as_uri()}@" in record.read_text()
    assert sha256_of_file(project / "CPM.cmake") in record.read_text()


@pytest.mark.usefixtures("whole_cuda_home")
def test_would_download_without_its_overrides(
    engine: Engine, project: Path, tmp_path: Path
) -> None:
    other = change_recipe(
        project,
        tmp_path,
        "define = {**REAL.build.define, 'CPM_XLA_SOURCE': ''}\n"
        "build = dataclasses.replace(REAL.build, define=define)\n"
        "RECIPE = dataclasses.replace(RECIPE, build=build)\n",
    )

    done = engine.build("jaxmg", "--source", str(STANDIN), CUWHEEL_PROJECT=str(other))

    [log] = engine.work.glob("*/logs/build.log")
    assert done.status == 61
    assert "CPM: XLA would be downloaded" in log.read_text()
