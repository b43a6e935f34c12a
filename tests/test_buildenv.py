"""The variables of a build: the toolchain's compilers, and no way to the machine's."""

from __future__ import annotations

import dataclasses
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.artefacts import Environment, Preflight, Toolchain
from cuwheel.buildenv import BuildInputs, _placeholders, private_paths, public_variables, variables
from cuwheel.process import which
from cuwheel.recipe import PLACEHOLDERS, CMake
from cuwheel.toolbox import make_toolbox
from tests.factories import make_space, make_target

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture
def inputs(tmp_path: Path) -> BuildInputs:
    """Those of a build with the machine's compiler."""
    env = tmp_path / "env"
    return BuildInputs(
        tree=tmp_path / "tree",
        epoch=0,
        toolchain=Toolchain(
            home=tmp_path / "cuda", version="13.0.88", provider="pypi", fingerprint="", pinned=True
        ),
        python=Environment(
            python=env / "bin" / "python",
            site_packages=env,
            fingerprint="",
            base_python=tmp_path / "python" / "bin" / "python3",
            base_version="",
        ),
        machine=Preflight(
            host_compiler=Path("/usr/bin/g++"),
            c_compiler=Path("/usr/bin/gcc"),
            host_compiler_version="",
            jobs=3,
        ),
        home=tmp_path / "home",
        tmp=tmp_path / "tmp",
        toolbox=tmp_path / "toolbox",
        resources=tmp_path / "resources",
    )


@pytest.fixture
def own_compiler(inputs: BuildInputs) -> BuildInputs:
    """Those of a build whose toolchain brings a compiler; the machine has a toolbox."""
    prefix = inputs.toolchain.home
    compilers = {"gcc": prefix / "bin" / "triplet-gcc", "g++": prefix / "bin" / "triplet-g++"}
    for path in (*compilers.values(), prefix / "bin" / "nvcc"):
        write_program(path)
    for name, path in compilers.items():
        write_program(prefix / "plain" / name)
        assert path.is_file()
    inputs.toolbox.mkdir()
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
    return dataclasses.replace(
        inputs, toolchain=toolchain, machine=machine, toolbox=make_toolbox(inputs.toolbox)
    )


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


def test_takes_nothing_from_caller(inputs: BuildInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    before = variables(make_target(), inputs)
    for name in ("CC", "CXX", "CUDA_HOME", "NVCC_PREPEND_FLAGS", "CUDA_INCLUDE_DIRS", "LDFLAGS"):
        monkeypatch.setenv(name, "the caller's")

    assert variables(make_target(), inputs) == before


def test_own_compilers_are_stated_everywhere(own_compiler: BuildInputs) -> None:
    made = variables(make_target(build=CMake()), own_compiler)
    cc, cxx = own_compiler.toolchain.cc, own_compiler.toolchain.cxx

    assert {made["CXX"], made["CUDAHOSTCXX"], made["NVCC_CCBIN"]} == {str(cxx)}
    assert made["CC"] == str(cc)
    assert defined(made)["CMAKE_CXX_COMPILER"] == str(cxx)
    assert defined(made)["CMAKE_CUDA_HOST_COMPILER"] == str(cxx)
    assert defined(made)["CMAKE_C_COMPILER"] == str(cc)


@pytest.mark.parametrize("name", ["gcc", "g++", "nvcc"])
def test_plain_name_finds_toolchain(own_compiler: BuildInputs, name: str) -> None:
    path = variables(make_target(), own_compiler)["PATH"]

    assert Path(which(name, path) or "").is_relative_to(own_compiler.toolchain.home)


@pytest.mark.parametrize("name", ["x86_64-linux-gnu-gcc", "ld", "c++", "ar", "strip"])
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


def test_states_no_folder_of_machine(own_compiler: BuildInputs, tmp_path: Path) -> None:
    made = public_variables(variables(make_target(), own_compiler), own_compiler)

    assert not [name for name, value in made.items() if str(tmp_path) in value]


def test_toolchain_is_private(own_compiler: BuildInputs, tmp_path: Path) -> None:
    space = make_space(tmp_path)

    assert str(own_compiler.toolchain.home) in private_paths(make_target(), space, own_compiler)
