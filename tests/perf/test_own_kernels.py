"""The kernels of a library by name, and how much of the time they took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.perf.own_kernels import (
    code_of_libraries,
    gpu_shares,
    kernels_of,
    longest,
    own_share,
)
from tests.support.factories import compile_cuda

if TYPE_CHECKING:
    from pathlib import Path


SOURCE = "__global__ void twice(float *x) { *x *= 2; }\nnamespace a { __global__ void b() {} }\n"


@pytest.fixture(scope="module")
def library(cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    source = folder / "twice.cu"
    source.write_text(SOURCE)
    flags = ("-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_100,code=compute_100")
    return compile_cuda(folder / "twice.so", cuda_home, source, *flags, "-cudart=none")


def test_kernels_of_machine_code(library: Path) -> None:
    assert kernels_of([library], "90") == {"_Z5twicePf", "_ZN1a1bEv"}


def test_kernels_that_the_driver_compiles_of_ptx(library: Path) -> None:
    assert kernels_of([library], "120") == {"_Z5twicePf", "_ZN1a1bEv"}


def test_no_kernels_for_an_older_gpu(library: Path) -> None:
    assert kernels_of([library], "80") == frozenset()


def test_archs_of_libraries(library: Path, tmp_path: Path) -> None:
    text = tmp_path / "script.so"
    text.write_text("INPUT(x)")

    found = code_of_libraries([library, text])

    assert (found.sass, found.ptx) == (("90",), ("100",))


KERNELS = [
    {"name": "_Z5twicePf", "count": 1, "nanoseconds": 75},
    {"name": "ampere_gemm", "count": 3, "nanoseconds": 25},
]


def test_share_of_own_kernels() -> None:
    assert own_share(KERNELS, frozenset({"_Z5twicePf"})) == 0.75


def test_nothing_ran() -> None:
    assert own_share([], frozenset({"_Z5twicePf"})) is None


def test_longest_come_first() -> None:
    assert longest(reversed(KERNELS)) == (("_Z5twicePf", 0.75), ("ampere_gemm", 0.25))


ON_TWO = [
    {"name": "_Z5twicePf", "gpu": 0, "count": 1, "nanoseconds": 45},
    {"name": "ampere_gemm", "gpu": 1, "count": 1, "nanoseconds": 40},
    {"name": "_Z5twicePf", "gpu": 1, "count": 1, "nanoseconds": 15},
]


def test_a_kernel_of_two_gpus_is_one() -> None:
    assert longest(ON_TWO) == (("_Z5twicePf", 0.6), ("ampere_gemm", 0.4))


def test_share_of_each_gpu() -> None:
    assert gpu_shares(ON_TWO, 3) == (0.45, 0.55, 0.0)


def test_no_share_where_nothing_ran() -> None:
    assert gpu_shares([], 2) == ()
