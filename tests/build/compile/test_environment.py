"""The variables of a build: the toolchain's compilers, and no way to the machine's."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import which
from cuwheel.build.compile.environment import BuildInputs, _placeholders, variables
from cuwheel.build.recipe.platform import AARCH64, PLATFORMS, own_platform
from cuwheel.build.recipe.recipe import PLACEHOLDERS, CMake, Setuptools, TorchExtension
from cuwheel.build.toolchains.system_programs import obtain_toolbox
from tests.support.build.launchers import make_inputs
from tests.support.factories import make_target, make_workspace


@pytest.fixture
def inputs(tmp_path: Path) -> BuildInputs:
    """Inputs of a build with the machine's compiler."""
    return make_inputs(tmp_path)


@pytest.fixture(scope="module")
def toolbox(module_path: Path, shared_cache: Path) -> Path:
    """A thousand links take longer to make than these tests: the folder is the user's."""
    return obtain_toolbox(make_workspace(module_path, cache=shared_cache))


@pytest.fixture
def own_compiler(inputs: BuildInputs, toolbox: Path) -> BuildInputs:
    """Inputs of a build with the toolchain's compiler; the machine has a toolbox."""
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
        libraries=prefix / "sysroot" / "usr" / "lib64",
    )
    machine = dataclasses.replace(
        inputs.machine, host_compiler=compilers["g++"], c_compiler=compilers["gcc"]
    )
    return dataclasses.replace(inputs, toolchain=toolchain, machine=machine, toolbox=toolbox)


def write_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def defined(env: Mapping[str, str]) -> dict[str, str]:
    """Return the definitions in `CMAKE_ARGS`."""
    words = (word.removeprefix("-D") for word in shlex.split(env["CMAKE_ARGS"]))
    return dict(word.split("=", 1) for word in words)


def test_fills_every_placeholder(inputs: BuildInputs) -> None:
    assert sorted(_placeholders(make_target(), inputs)) == sorted(PLACEHOLDERS)


def test_takes_nothing_from_caller(inputs: BuildInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    before = variables(make_target(), inputs)
    for name in ("CC", "CXX", "CUDA_HOME", "NVCC_PREPEND_FLAGS", "CUDA_INCLUDE_DIRS", "LDFLAGS"):
        monkeypatch.setenv(name, "the caller's")

    assert variables(make_target(), inputs) == before


_STRIP = "aarch64-linux-gnu-strip"
_FFTW = {"platform": AARCH64, "needs": {"debian": ("libfftw3-dev",)}}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, {"CC": "{gcc}", "CXX": "{gxx}", "CUDAHOSTCXX": "{gxx}"}),
        # As stated, and not as Python was linked
        ({}, {"LDSHARED": "{gcc} -shared", "LDCXXSHARED": "{gxx} -shared"}),
        ({}, {"CUDA_HOME": "{view}", "CUDA_PATH": "{view}", "CUDACXX": "{view}/bin/nvcc"}),
        ({}, {"MAX_JOBS": "3", "NVCC_THREADS": "1", "CUWHEEL_JOBS": "3"}),
        ({}, {"CUWHEEL_MEMORY": "{memory}", "CUWHEEL_EVENTS": "{events}/events.jsonl"}),
        ({"platform": AARCH64}, {"STRIP": _STRIP, "_PYTHON_HOST_PLATFORM": "linux-aarch64"}),
        ({"platform": AARCH64}, {"PYTHONPATH": "{target_python}"}),
    ],
)
def test_sets_variables(
    inputs: BuildInputs, facts: dict[str, Any], expected: dict[str, str]
) -> None:
    assert_holds(variables(make_target(**facts), inputs), expected, inputs)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, {"CMAKE_C_COMPILER": "{gcc}", "CMAKE_CXX_COMPILER": "{gxx}"}),
        ({}, {"CMAKE_CUDA_HOST_COMPILER": "{gxx}", "CMAKE_CUDA_COMPILER": "{view}/bin/nvcc"}),
        ({}, {"CUDAToolkit_ROOT": "{view}", "CMAKE_SYSTEM_NAME": None}),
        (
            {"platform": AARCH64},
            {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": "aarch64"},
        ),
        (_FFTW, {"CMAKE_LIBRARY_PATH": "{target_libraries}/lib"}),
        (_FFTW, {"CMAKE_INCLUDE_PATH": "{target_libraries}/include"}),
    ],
)
def test_sets_definitions_of_cmake(
    inputs: BuildInputs, facts: dict[str, Any], expected: dict[str, str]
) -> None:
    env = variables(make_target(build=CMake(), **facts), inputs)

    assert_holds(defined(env), expected, inputs)


def assert_holds(
    env: Mapping[str, str], expected: Mapping[str, str | None], inputs: BuildInputs
) -> None:
    """Compare some variables with texts that name the inputs' folders."""
    names: dict[str, Any] = {
        field.name: getattr(inputs, field.name) for field in dataclasses.fields(inputs)
    }
    names |= {"gcc": inputs.launcher / "bin" / "gcc", "gxx": inputs.launcher / "bin" / "g++"}
    texts = {name: text and text.format_map(names) for name, text in expected.items()}
    assert {name: env.get(name) for name in expected} == texts


def test_launcher_replaces_the_toolchains_compiler(own_compiler: BuildInputs) -> None:
    env = variables(make_target(build=CMake()), own_compiler)

    assert_holds(env, {"CC": "{gcc}", "CXX": "{gxx}", "CUDAHOSTCXX": "{gxx}"}, own_compiler)
    assert_holds(defined(env), {"CMAKE_CUDA_HOST_COMPILER": "{gxx}"}, own_compiler)


@pytest.mark.parametrize(
    ("facts", "variable", "flags"),
    [
        ({"libstdcxx": "static"}, "LDFLAGS", "-static-libstdc++ -static-libgcc"),
        (_FFTW, "CXXFLAGS", "-idirafter {0}/include"),
        (_FFTW, "LDFLAGS", "-L{0}/lib -Wl,-rpath-link,{0}/lib"),
    ],
)
def test_adds_flags_where_they_are_needed(
    inputs: BuildInputs, facts: dict[str, Any], variable: str, flags: str
) -> None:
    flags = flags.format(inputs.target_libraries)

    assert flags in variables(make_target(**facts), inputs)[variable]
    assert flags not in variables(make_target(libstdcxx="shared"), inputs)[variable]


@pytest.mark.parametrize("name", ["gcc", "g++", "nvcc", "ar", "sh", "sed", "tar", "uname"])
def test_finds_programs_of_launcher_toolchain_and_toolbox(
    own_compiler: BuildInputs, name: str
) -> None:
    folders = {
        "gcc": own_compiler.launcher / "bin",
        "g++": own_compiler.launcher / "bin",
        "nvcc": own_compiler.view / "bin",
        "ar": own_compiler.toolchain.home / "plain",
    }
    path = variables(make_target(), own_compiler)["PATH"]

    assert which(name, path) == str(folders.get(name, own_compiler.toolbox) / name)


@pytest.mark.parametrize("name", ["x86_64-linux-gnu-gcc", "ld", "strip"])
def test_no_compiler_of_machine_is_in_reach(own_compiler: BuildInputs, name: str) -> None:
    path = variables(make_target(), own_compiler)["PATH"]

    assert which(name, os.defpath), "the machine has it, so that this shows something"
    assert which(name, path) is None


def test_cmake_searches_the_machine_only_with_its_compiler(
    inputs: BuildInputs, own_compiler: BuildInputs
) -> None:
    machine = defined(variables(make_target(build=CMake()), inputs))
    own = defined(variables(make_target(build=CMake()), own_compiler))

    assert "CMAKE_FIND_USE_CMAKE_SYSTEM_PATH" not in machine
    assert own["CMAKE_FIND_USE_CMAKE_SYSTEM_PATH"] == "OFF"
    assert Path(own["CMAKE_LIBRARY_PATH"]).is_relative_to(own_compiler.toolchain.home)
    # scikit-build-core puts site-packages on it; a definition of ours would remove them.
    assert "CMAKE_PREFIX_PATH" not in own


_MIXED = ("90", "90a", "100f")


@pytest.mark.parametrize(
    ("placeholder", "text"),
    [
        ("torch_archs", "9.0+PTX;9.0a;10.0f"),
        ("cmake_archs", "90;90a-real;100f-real"),
        pytest.param(
            "gencode",
            "-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90a,code=sm_90a "
            "-gencode=arch=compute_100f,code=sm_100f -gencode=arch=compute_90,code=compute_90",
        ),
    ],
)
def test_names_archs_as_each_builder_does(inputs: BuildInputs, placeholder: str, text: str) -> None:
    assert _placeholders(make_target(archs=_MIXED, ptx="last"), inputs)[placeholder] == text


def test_page_lists_each_variable(inputs: BuildInputs, own_compiler: BuildInputs) -> None:
    builds = (Setuptools(), TorchExtension(), CMake())
    foreign = [platform for platform in PLATFORMS.values() if platform.is_foreign]
    env = {
        name
        for build in builds
        for build_inputs in (inputs, own_compiler)
        for platform in (own_platform(), *foreign)
        for name in variables(make_target(build=build, platform=platform), build_inputs)
    }
    text = (ROOT / "docs" / "build-environment.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| (`[A-Z].*?) \|", text.partition("## Its variables")[2])

    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    of_device_code = {"CUWHEEL_DEVICE_CODE", "CUWHEEL_DEVICE_TOOLS", "CUWHEEL_PLATFORM"}
    assert documented == env | of_device_code


@pytest.mark.parametrize("facts", [{"needs": {"debian": ("libfftw3-dev",)}}, {"platform": AARCH64}])
def test_takes_no_libraries_of_a_root_without_need(
    inputs: BuildInputs, facts: dict[str, Any]
) -> None:
    env = variables(make_target(build=CMake(), **facts), inputs)

    assert str(inputs.target_libraries) not in "".join(env.values())


def test_takes_packages_of_another_machine(inputs: BuildInputs, tmp_path: Path) -> None:
    python = dataclasses.replace(inputs.python, foreign_packages=tmp_path / "foreign")

    env = _placeholders(make_target(), dataclasses.replace(inputs, python=python))

    assert env["site_packages"] == str(tmp_path / "foreign")
