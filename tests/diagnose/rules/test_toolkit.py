"""What is said of toolkits and host compilers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.factories import write_compiler
from tests.support.nvccs import judged, write_nvcc

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("bare_machine")


@pytest.mark.parametrize(
    ("value", "why", "fix"),
    [
        ("{}:/other", "it is a list", "export CUDA_HOME={}"),
        ("{}/bin", "the folder that contains bin", "export CUDA_HOME={}"),
        ("{}/bin/nvcc", "the folder that contains bin", "export CUDA_HOME={}"),
        ('"{}"', "quotes or spaces", "export CUDA_HOME={}"),
        ("{}/gone", "there is no such folder", "unset CUDA_HOME"),
    ],
)
def test_names_malformed_home(tmp_path: Path, value: str, why: str, fix: str) -> None:
    home = write_nvcc(tmp_path / "cuda", "13.0")

    found = judged(CUDA_HOME=value.format(home))[0]

    assert (found.level, found.anchor) == ("broken", "malformed-cuda-home")
    assert why in found.cause
    assert found.fix.startswith(fix.format(home))


def test_names_host_compiler_that_is_too_new(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "12.2")
    write_compiler(tmp_path / "new", "g++", "16.1.0")

    [found] = judged(CUDA_HOME=str(home), PATH=f"{tmp_path / 'new'}:/usr/bin:/bin")

    assert found.anchor == "host-compiler-too-new"
    assert "supports GCC up to 12" in found.cause


def test_asks_the_host_compiler_that_is_named(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "12.2")
    named = write_compiler(tmp_path / "old", "g++-11", "11.4.0")

    [found] = judged(CUDA_HOME=str(home), NVCC_CCBIN=str(named))

    assert found.level == "ok"


def test_names_two_releases(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "13.0")
    other = write_nvcc(tmp_path / "other", "12.4")

    [found] = judged(CUDA_HOME=str(home), PATH=f"{other / 'bin'}:/usr/bin:/bin")

    assert found.anchor == "wrong-nvcc-picked"
    assert "is 13.0" in found.cause
    assert "is 12.4" in found.cause


def test_names_distribution_that_hides_newer_one(tmp_path: Path) -> None:
    usr = write_nvcc(tmp_path / "usr", "11.8")
    write_nvcc(tmp_path / "local" / "cuda-13.0", "13.0")

    found = judged(PATH=f"{usr / 'bin'}:/usr/bin:/bin", NVCC_CCBIN="nonesuch")

    assert [one.anchor for one in found] == ["wrong-nvcc-picked"]


def test_names_torch_of_other_cuda(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "13.0")

    [found] = judged(CUDA_HOME=str(home), torch="12.8")

    assert found.anchor == "torch-cuda-mismatch"


def test_names_missing_compiler_of_triton(tmp_path: Path) -> None:
    [found] = judged(triton=True, PATH=str(tmp_path))

    assert found.anchor == "triton-no-c-compiler"
