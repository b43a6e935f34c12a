"""Failures of builds by hand: each is impossible here, or found before compiling."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import PreflightError, RecipeError
from cuwheel.base.system import compilers
from cuwheel.build.pipeline.stages.preflight import preflight
from cuwheel.build.recipe.recipe import Build, CMake, Setuptools, TorchExtension
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.build.recipe.target import Target
from tests.support.factories import (
    locked_target,
    make_job,
    make_recipe,
    make_workspace,
    write_compiler,
)


def target_for(toolkit: str, provider: str = "system") -> Target:
    return locked_target(toolkit=toolkit, provider=provider)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of `/usr/bin`, with the GCC of a new distribution."""
    folder = tmp_path / "usr" / "bin"
    write_compiler(folder, "g++", "13.3.0")
    monkeypatch.setattr(compilers, "SYSTEM_PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    return folder


@pytest.mark.usefixtures("system")
def test_refuses_gcc_13_for_nvcc_12_2(tmp_path: Path) -> None:
    with pytest.raises(PreflightError) as caught:
        preflight(make_job(target_for("12.2"), make_workspace(tmp_path)))

    assert "nvcc of CUDA 12.2 supports GCC up to 12" in caught.value.why
    assert "apt-get install g++-12" in caught.value.fix


def test_prefers_gcc_12_to_gcc_13_for_nvcc_12_2(system: Path, tmp_path: Path) -> None:
    compiler = write_compiler(system, "g++-12", "12.2.0")

    machine_facts = preflight(make_job(target_for("12.2"), make_workspace(tmp_path)))

    assert machine_facts.host_compiler == compiler


@pytest.mark.usefixtures("system")
def test_conda_toolchain_needs_no_other_gcc(tmp_path: Path) -> None:
    assert preflight(make_job(target_for("12.2", "conda"), make_workspace(tmp_path))).jobs


# Without nvcc's check a GCC passes that it can't read: `_Float32` is undefined.


@pytest.mark.parametrize(
    "build",
    [
        CMake(define={"CUDAToolkit_ROOT": "/usr/local/cuda"}),
        CMake(define={"CMAKE_CUDA_FLAGS": "-O3 -allow-unsupported-compiler"}),
        CMake(env={"NVCC_PREPEND_FLAGS": "--allow-unsupported-compiler"}),
        Setuptools(env={"NVCC_FLAGS": "-allow-unsupported-compiler"}),
        TorchExtension(env={"NVCC_FLAGS": "-allow-unsupported-compiler"}),
    ],
    ids=["other toolkit", "define", "cmake env", "setuptools", "torch"],
)
def test_refuses_recipe_without_nvccs_check(build: Build) -> None:
    with pytest.raises(RecipeError, match="1 error"):
        check_recipe(make_recipe(build=build))
