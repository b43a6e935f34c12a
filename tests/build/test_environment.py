"""The variables of a build: the toolchain's compilers, and no way to the machine's."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.build.environment import _placeholders, variables
from cuwheel.model.platform import AARCH64, PLATFORMS, own_platform
from cuwheel.model.recipe import PLACEHOLDERS, CMake, Setuptools, TorchExtension
from cuwheel.paths import ROOT
from cuwheel.system.process import which
from cuwheel.toolchains.system_programs import obtain_toolbox
from tests.support.factories import make_target, make_workspace
from tests.support.launchers import make_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.build.environment import BuildInputs


@pytest.fixture
def inputs(tmp_path: Path) -> BuildInputs:
    """Those of a build with the machine's compiler."""
    return make_inputs(tmp_path)


@pytest.fixture
def own_compiler(inputs: BuildInputs) -> BuildInputs:
    """Those of a build whose toolchain brings a compiler; the machine has a toolbox."""
    prefix = inputs.toolchain.home
    compilers = {"gcc": prefix / "bin" / "triplet-gcc", "g++": prefix / "bin" / "triplet-g++"}
    for path in (*compilers.values(), prefix / "bin" / "nvcc"):
        write_program(path)
    for name in (*compilers, "ar"):
        write_program(prefix / "plain" / name)
    for name in ("gcc", "g++"):
        write_program(inputs.launcher / "bin" / name)
    write_program(inputs.view / "bin" / "nvcc")
    toolchain = dataclasses.replace(
        inputs.toolchain,
        provider="conda",
        cc=compilers["gcc"],
        cxx=compilers["g++"],
        programs=prefix / "plain",
    )
    machine = dataclasses.replace(
        inputs.machine, host_compiler=compilers["g++"], c_compiler=compilers["gcc"]
    )
    toolbox = obtain_toolbox(make_workspace(inputs.tree.parent))
    return dataclasses.replace(inputs, toolchain=toolchain, machine=machine, toolbox=toolbox)


def write_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def defined(made: Mapping[str, str]) -> dict[str, str]:
    """What `CMAKE_ARGS` defines."""
    words = (word.removeprefix("-D") for word in shlex.split(made["CMAKE_ARGS"]))
    return dict(word.split("=", 1) for word in words)


def test_fills_every_placeholder(inputs: BuildInputs) -> None:
    assert sorted(_placeholders(make_target(), inputs)) == sorted(PLACEHOLDERS)


def test_links_as_stated_and_not_as_python_was_linked(inputs: BuildInputs) -> None:
    made = variables(make_target(), inputs)

    assert made["LDSHARED"] == f"{made['CC']} -shared"
    assert made["LDCXXSHARED"] == f"{made['CXX']} -shared"


def test_takes_nothing_from_caller(inputs: BuildInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    before = variables(make_target(), inputs)
    for name in ("CC", "CXX", "CUDA_HOME", "NVCC_PREPEND_FLAGS", "CUDA_INCLUDE_DIRS", "LDFLAGS"):
        monkeypatch.setenv(name, "the caller's")

    assert variables(make_target(), inputs) == before


@pytest.mark.parametrize("has_own", [False, True])
def test_launcher_stands_for_every_compiler(
    inputs: BuildInputs,
    own_compiler: BuildInputs,
    has_own: bool,  # noqa: FBT001
) -> None:
    used = own_compiler if has_own else inputs
    made = variables(make_target(build=CMake()), used)
    cc, cxx = str(used.launcher / "bin" / "gcc"), str(used.launcher / "bin" / "g++")

    assert {made["CXX"], made["CUDAHOSTCXX"]} == {cxx}
    assert made["CC"] == cc
    assert defined(made)["CMAKE_CXX_COMPILER"] == cxx
    assert defined(made)["CMAKE_CUDA_HOST_COMPILER"] == cxx
    assert defined(made)["CMAKE_C_COMPILER"] == cc


def test_toolkit_is_the_view(inputs: BuildInputs) -> None:
    made = variables(make_target(build=CMake()), inputs)
    nvcc = str(inputs.view / "bin" / "nvcc")

    assert {made["CUDA_HOME"], made["CUDA_PATH"]} == {str(inputs.view)}
    assert {made["CUDACXX"], defined(made)["CMAKE_CUDA_COMPILER"]} == {nvcc}
    assert defined(made)["CUDAToolkit_ROOT"] == str(inputs.view)


@pytest.mark.parametrize("name", ["gcc", "g++"])
def test_plain_name_finds_launcher(own_compiler: BuildInputs, name: str) -> None:
    path = variables(make_target(), own_compiler)["PATH"]

    assert which(name, path) == str(own_compiler.launcher / "bin" / name)


def test_plain_nvcc_is_that_of_the_view(own_compiler: BuildInputs) -> None:
    path = variables(make_target(), own_compiler)["PATH"]

    assert which("nvcc", path) == str(own_compiler.view / "bin" / "nvcc")


def test_other_programs_of_toolchain_are_in_reach(own_compiler: BuildInputs) -> None:
    path = variables(make_target(), own_compiler)["PATH"]

    assert which("ar", path) == str(own_compiler.toolchain.home / "plain" / "ar")


def test_gate_hears_of_its_folders(inputs: BuildInputs) -> None:
    made = variables(make_target(memory_per_job=5), inputs)

    assert made["CUWHEEL_MEMORY"] == str(inputs.memory)
    assert Path(made["CUWHEEL_EVENTS"]).parent == inputs.events
    assert (made["CUWHEEL_MEMORY_PER_JOB"], made["CUWHEEL_TARGET"]) == ("5", "tiny-cuda")


def test_one_compile_takes_one_thread(inputs: BuildInputs) -> None:
    made = variables(make_target(), inputs)

    assert (made["MAX_JOBS"], made["NVCC_THREADS"]) == (str(inputs.machine.jobs), "1")
    assert made["CUWHEEL_JOBS"] == str(inputs.machine.jobs)


@pytest.mark.parametrize("name", ["x86_64-linux-gnu-gcc", "ld", "strip"])
def test_no_compiler_of_machine_is_in_reach(own_compiler: BuildInputs, name: str) -> None:
    path = variables(make_target(), own_compiler)["PATH"]

    assert which(name, os.defpath), "the machine has it, so that this shows something"
    assert which(name, path) is None


@pytest.mark.parametrize("name", ["sh", "sed", "tar", "uname"])
def test_other_programs_of_machine_are_in_reach(own_compiler: BuildInputs, name: str) -> None:
    path = variables(make_target(), own_compiler)["PATH"]

    assert which(name, path) == str(own_compiler.toolbox / name)


def test_cmake_looks_for_nothing_on_machine(own_compiler: BuildInputs) -> None:
    made = variables(make_target(build=CMake()), own_compiler)

    assert defined(made)["CMAKE_FIND_USE_CMAKE_SYSTEM_PATH"] == "OFF"
    assert Path(defined(made)["CMAKE_LIBRARY_PATH"]).is_relative_to(own_compiler.toolchain.home)


def test_leaves_prefix_path_to_backend(own_compiler: BuildInputs) -> None:
    """scikit-build-core puts site-packages on it; a definition of ours would take them off."""
    assert "CMAKE_PREFIX_PATH" not in defined(variables(make_target(build=CMake()), own_compiler))


def test_cmake_may_look_on_machine_whose_compiler_is_used(inputs: BuildInputs) -> None:
    made = variables(make_target(build=CMake()), inputs)

    assert "CMAKE_FIND_USE_CMAKE_SYSTEM_PATH" not in defined(made)


@pytest.mark.parametrize(("kind", "is_static"), [("static", True), ("shared", False)])
def test_recipe_chooses_cpp_runtime(inputs: BuildInputs, kind: str, is_static: bool) -> None:  # noqa: FBT001
    flags = variables(make_target(libstdcxx=kind), inputs)["LDFLAGS"].split()

    assert ("-static-libstdc++" in flags, "-static-libgcc" in flags) == (is_static, is_static)


_MIXED = ("90", "90a", "100f")


def test_names_archs_as_pytorch_wants_them(inputs: BuildInputs) -> None:
    made = _placeholders(make_target(archs=_MIXED, ptx="last"), inputs)

    assert made["torch_archs"] == "9.0+PTX;9.0a;10.0f"


def test_names_archs_as_cmake_wants_them(inputs: BuildInputs) -> None:
    made = _placeholders(make_target(archs=_MIXED, ptx="last"), inputs)

    assert made["cmake_archs"] == "90;90a-real;100f-real"


def test_names_archs_as_nvcc_wants_them(inputs: BuildInputs) -> None:
    made = _placeholders(make_target(archs=("90a", "100f")), inputs)

    assert made["gencode"] == (
        "-gencode=arch=compute_90a,code=sm_90a -gencode=arch=compute_100f,code=sm_100f"
    )


def test_page_lists_each_variable(inputs: BuildInputs, own_compiler: BuildInputs) -> None:
    builds = (Setuptools(), TorchExtension(), CMake())
    foreign = [one for one in PLATFORMS.values() if one.is_foreign]
    made = {
        name
        for build in builds
        for places in (inputs, own_compiler)
        for platform in (own_platform(), *foreign)
        for name in variables(make_target(build=build, platform=platform), places)
    }
    text = (ROOT / "docs" / "build-environment.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| (`[A-Z].*?) \|", text.partition("## Its variables")[2])

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == made


def test_names_programs_and_python_of_another_machine(inputs: BuildInputs) -> None:
    made = variables(make_target(platform=AARCH64), inputs)

    assert made["STRIP"] == "aarch64-linux-gnu-strip"
    assert made["PYTHONPATH"] == str(inputs.target_python)
    assert made["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"


def test_tells_cmake_that_it_cross_compiles(inputs: BuildInputs) -> None:
    made = defined(variables(make_target(build=CMake(), platform=AARCH64), inputs))

    assert (made["CMAKE_SYSTEM_NAME"], made["CMAKE_SYSTEM_PROCESSOR"]) == ("Linux", "aarch64")
    assert "CMAKE_SYSTEM_NAME" not in defined(variables(make_target(build=CMake()), inputs))


def test_takes_libraries_of_another_machines_root(inputs: BuildInputs) -> None:
    needs = {"debian": ("libfftw3-dev",)}
    target = make_target(build=CMake(), platform=AARCH64, needs=needs)

    made = variables(target, inputs)

    folder = inputs.target_libraries
    assert made["CXXFLAGS"].endswith(f" -idirafter {folder}/include")
    assert f"-L{folder}/lib -Wl,-rpath-link,{folder}/lib" in made["LDFLAGS"]
    assert defined(made)["CMAKE_LIBRARY_PATH"] == f"{folder}/lib"


@pytest.mark.parametrize("facts", [{"needs": {"debian": ("libfftw3-dev",)}}, {"platform": AARCH64}])
def test_takes_no_libraries_of_a_root_without_need(
    inputs: BuildInputs, facts: dict[str, Any]
) -> None:
    made = variables(make_target(build=CMake(), **facts), inputs)

    assert str(inputs.target_libraries) not in "".join(made.values())


def test_takes_packages_of_another_machine(inputs: BuildInputs, tmp_path: Path) -> None:
    python = dataclasses.replace(inputs.python, foreign_packages=tmp_path / "foreign")

    made = _placeholders(make_target(), dataclasses.replace(inputs, python=python))

    assert made["site_packages"] == str(tmp_path / "foreign")
