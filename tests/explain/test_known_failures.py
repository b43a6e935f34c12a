"""The failures that building by hand ran into: each is impossible here, or found before compiling.

One section for each row of the log that was kept of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.build.early_check import check_early
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.errors import PreflightError, RecipeError, ToolchainError
from cuwheel.model.recipe import CMake, Setuptools, TorchExtension
from cuwheel.model.recipe_check import check_recipe
from cuwheel.stages.preflight import preflight
from cuwheel.system import compilers, machine
from cuwheel.toolchains.provide import provide_toolchain
from tests.support.factories import (
    locked_target,
    make_job,
    make_recipe,
    make_workspace,
    write_compiler,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.recipe import Build
    from cuwheel.model.target import Target


def write_nvcc(folder: Path, version: str) -> Path:
    """An nvcc that only says which one it is."""
    folder.mkdir(parents=True)
    for name in ("nvcc", "ptxas"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "Cuda compilation tools, V{version}"\n')
        program.chmod(0o755)
    return folder / "nvcc"


def target_for(toolkit: str, provider: str = "system") -> Target:
    return locked_target(toolkit=toolkit, provider=provider)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for `/usr/bin`, with the GCC of a new distribution."""
    folder = tmp_path / "usr" / "bin"
    write_compiler(folder, "g++", "13.3.0")
    monkeypatch.setattr(compilers, "SYSTEM_PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    return folder


# nvcc of another version was picked up; a caller's: tests/build/test_isolation.py


def test_refuses_toolkit_of_machine_that_is_another_release(tmp_path: Path) -> None:
    home = tmp_path / "cuda"
    write_nvcc(home / "bin", "12.0.76")

    with pytest.raises(ToolchainError) as caught:
        provide_toolchain(
            toolkit_by_release("12.2"),
            "system",
            make_workspace(tmp_path),
            environ={"CUDA_HOME": str(home)},
        )

    assert caught.value.what.endswith("is not CUDA 12.2")
    assert caught.value.why == "it has nvcc 12.0.76, ptxas 12.0.76"


@pytest.mark.parametrize("name", ["CMAKE_CUDA_COMPILER", "CUDAToolkit_ROOT"])
def test_refuses_recipe_that_names_nvcc(name: str) -> None:
    recipe = make_recipe(build=CMake(define={name: "/usr/local/cuda"}))

    with pytest.raises(RecipeError, match="1 error"):
        check_recipe(recipe)


# GCC 13 was picked for nvcc 12.2


@pytest.mark.usefixtures("system")
def test_refuses_gcc_13_for_nvcc_12_2(tmp_path: Path) -> None:
    with pytest.raises(PreflightError) as caught:
        preflight(make_job(target_for("12.2"), make_workspace(tmp_path)))

    assert "nvcc of CUDA 12.2 supports GCC up to 12" in caught.value.why
    assert "apt-get install g++-12" in caught.value.fix


def test_prefers_gcc_12_to_gcc_13_for_nvcc_12_2(system: Path, tmp_path: Path) -> None:
    fitting = write_compiler(system, "g++-12", "12.2.0")

    found = preflight(make_job(target_for("12.2"), make_workspace(tmp_path)))

    assert found.host_compiler == fitting


@pytest.mark.usefixtures("system")
def test_conda_toolchain_needs_no_other_gcc(tmp_path: Path) -> None:
    assert preflight(make_job(target_for("12.2", "conda"), make_workspace(tmp_path))).jobs


# `_Float32` is undefined: -allow-unsupported-compiler let a GCC pass that nvcc can't read


@pytest.mark.parametrize(
    "build",
    [
        CMake(define={"CMAKE_CUDA_FLAGS": "-O3 -allow-unsupported-compiler"}),
        CMake(env={"NVCC_PREPEND_FLAGS": "--allow-unsupported-compiler"}),
        Setuptools(env={"NVCC_FLAGS": "-allow-unsupported-compiler"}),
        TorchExtension(env={"NVCC_FLAGS": "-allow-unsupported-compiler"}),
    ],
    ids=["define", "cmake env", "setuptools", "torch"],
)
def test_refuses_recipe_that_shuts_nvccs_check_off(build: Build) -> None:
    with pytest.raises(RecipeError) as caught:
        check_recipe(make_recipe(build=build))

    assert "only moves the failure into the headers (`_Float32` is undefined)" in caught.value.why


# The wheel's CUDA doesn't fit the driver


def test_refuses_cuda_that_driver_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "driver_version", lambda: "535.104.05")

    with pytest.raises(PreflightError) as caught:
        check_early(make_job(target_for("13.0", "pypi"), make_workspace(tmp_path)))

    assert caught.value.why == (
        "1. a wheel for CUDA 13.0 doesn't run on this machine: "
        "its driver is 535.104.05, and the wheel needs 580.65.06 or newer"
    )
    assert "-- --any-driver" in caught.value.fix


def test_builds_cuda_12_for_driver_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "driver_version", lambda: "535.104.05")

    assert preflight(make_job(target_for("12.2", "conda"), make_workspace(tmp_path))).jobs
