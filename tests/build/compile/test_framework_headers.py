"""Headers of a framework in the trial before a build, with the real compilers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import PreflightError
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.compile.framework_headers import check_framework_headers
from cuwheel.build.recipe.recipe import CMake, Framework, TorchExtension
from cuwheel.build.recipe.target import Target
from tests.support.build.launchers import make_inputs
from tests.support.factories import make_target

# As torch 2.14.0's ATen/ATen.h.
_ATEN = """#if !defined(_MSC_VER) && __cplusplus < 202002L
#error C++20 or later compatible compiler is required to use ATen.
#endif
"""
_BUILDER = "cpp_flag = cpp_flag_prefix + 'c++20'\n"


@pytest.fixture
def inputs(tmp_path: Path, cuda_home: Path) -> BuildInputs:
    """A source that includes a header that needs C++20, in an environment with that header."""
    made = make_inputs(tmp_path)
    torch = made.python.site_packages / "torch"
    for name, text in (
        ("include/ATen/ATen.h", _ATEN),
        ("include/c10/base.h", "#include <cuda_runtime.h>\n"),
        ("include/c10/hip/base.h", "#include <hip.h>\n"),
        ("utils/cpp_extension.py", _BUILDER),
    ):
        (torch / name).parent.mkdir(parents=True, exist_ok=True)
        (torch / name).write_text(text)
    made.tree.mkdir()
    names = ("ATen/ATen.h", "c10/base.h", "c10/hip/base.h", "c10/absent.h")
    (made.tree / "a.cu").write_text("".join(f"#include <{name}>\n" for name in names))
    return dataclasses.replace(made, toolchain=dataclasses.replace(made.toolchain, home=cuda_home))


def torch_target(**recipe: Any) -> Target:
    torch = Framework(name="torch", version="2.14.0")
    return make_target(**{"build": TorchExtension(), "framework": torch, **recipe})


def faults(target: Target, inputs: BuildInputs, *standards: str) -> list[PreflightError]:
    sources = ("a.cu",) if standards else ()
    return list(check_framework_headers(target, inputs, standards, sources, cache=inputs.tmp))


def passed(inputs: BuildInputs) -> list[Path]:
    return list(inputs.tmp.glob("canaries/headers-*"))


def test_refuses_standard_that_headers_refuse(inputs: BuildInputs) -> None:
    [fault] = faults(torch_target(), inputs, "17", "20")

    assert fault.what == "the headers of torch 2.14.0 don't compile as C++17"
    assert "torch/include/ATen/ATen.h:2" in fault.why
    assert '`cxx_standard={"torch>=2.14.0": "20"},`' in fault.fix


def test_follows_the_packages_own_headers(inputs: BuildInputs) -> None:
    (inputs.tree / "a.cu").rename(inputs.tree / "own.cuh")
    (inputs.tree / "a.cu").write_text("int a;\n")
    assert not faults(torch_target(), inputs, "17"), "no source includes it"

    (inputs.tree / "a.cu").write_text('#include "csrc/own.cuh"\n')
    assert faults(torch_target(), inputs, "17")


def test_takes_the_declared_standard(inputs: BuildInputs) -> None:
    target = torch_target(cxx_standard={"torch>=2.14": "20"})

    assert not faults(target, inputs, "17")
    assert len(passed(inputs)) == 1


def test_tries_equal_inputs_once(inputs: BuildInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not faults(torch_target(), inputs, "20")

    monkeypatch.setattr("cuwheel.build.compile.framework_headers.run", None)
    assert not faults(torch_target(), inputs, "20")


def test_knows_the_standard_of_pytorchs_builder(inputs: BuildInputs) -> None:
    assert not faults(torch_target(), inputs, "")


def test_one_of_the_standards_of_cmake_is_enough(inputs: BuildInputs) -> None:
    lists = inputs.tree / "CMakeLists.txt"

    lists.write_text("set(CMAKE_CXX_STANDARD 17)\n")
    assert len(faults(torch_target(build=CMake()), inputs)) == 1
    lists.write_text("set(CMAKE_CXX_STANDARD 17)\nset(CMAKE_CUDA_STANDARD 20)\n")
    assert not faults(torch_target(build=CMake()), inputs)


def test_cmake_may_set_a_standard_that_its_first_list_does_not_name(inputs: BuildInputs) -> None:
    (inputs.tree / "CMakeLists.txt").write_text("project(a LANGUAGES CXX)\n")
    needs = "#if __cplusplus < 202002L\n#error C++20 is required\n#endif\n"
    header = inputs.python.site_packages / "torch" / "include" / "c10" / "base.h"

    header.write_text(needs)
    assert not faults(torch_target(build=CMake()), inputs)
    header.write_text("#error this compiler is too old\n")
    assert len(faults(torch_target(build=CMake()), inputs)) == 1


def test_says_nothing_of_what_it_cannot_judge(inputs: BuildInputs) -> None:
    header = inputs.python.site_packages / "torch" / "include" / "c10" / "base.h"
    header.write_text("#include <of_another_package.h>\n")

    assert not faults(torch_target(), inputs, "20")


def test_refuses_standard_that_the_compiler_lacks(inputs: BuildInputs, tmp_path: Path) -> None:
    old = tmp_path / "g++"
    message = "g++: error: unrecognized command-line option '-std=gnu++20'"
    old.write_text(f'#!/bin/sh\necho "{message}" >&2\nexit 1\n')
    old.chmod(0o755)
    machine = dataclasses.replace(inputs.machine, host_compiler=old)

    [fault] = faults(torch_target(), dataclasses.replace(inputs, machine=machine), "20")

    assert "--host-compiler gcc12" in fault.fix
