"""Release of the runtime in libraries that are linked with it, and in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.cudart import CUDART_TEXT, linked_cudart
from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.system import process
from tests.support.factories import compile_cuda, compile_library
from tests.support.packages.foreign_platform import compile_arm64

_KERNEL = "__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n"


def release_in(library: Path) -> str:
    with library.open("rb") as stream:
        elf = read_elf(stream)
        code = elf.section(".text")
        assert code
        return linked_cudart(stream, code, elf.machine)


def make_library(folder: Path, home: Path, kind: str) -> Path:
    source = folder / "twice.cu"
    source.write_text(_KERNEL)
    flags = (f"-cudart={kind}", "-arch=sm_90", f"-L{home}/lib")
    return compile_cuda(folder / f"{kind}.so", home, source, *flags)


def test_reads_release_of_linked_runtime(tmp_path: Path, cuda_home: Path) -> None:
    library = make_library(tmp_path, cuda_home, "static")

    assert CUDART_TEXT in library.read_bytes()
    assert release_in(library) == "13.0"
    process.run(["strip", library], env={"PATH": "/usr/bin:/bin"})
    assert release_in(library) == "13.0"


def test_finds_no_runtime_that_was_not_linked(tmp_path: Path, cuda_home: Path) -> None:
    assert release_in(make_library(tmp_path, cuda_home, "none")) == ""


@pytest.mark.parametrize(("number", "release"), [(13000, "13.0"), (12080, "12.8"), (13001, "")])
def test_reads_release_from_code_for_arm64(tmp_path: Path, number: int, release: str) -> None:
    """GCC compiles this line to the instructions in NVIDIA's libcudart for arm64."""
    line = f"int get(long a, int *p) {{ if (p) {{ *p = {number}; return 0; }} return 1; }}\n"

    library = compile_arm64(tmp_path / "lib.so", "-O2", code=line)

    assert release_in(library) == release


@pytest.mark.parametrize("number", [13001, 20, 1300000])
def test_takes_no_other_number_for_a_release(tmp_path: Path, number: int) -> None:
    source = tmp_path / "version.c"
    source.write_text(f"int get(int *p) {{ if (p) {{ *p = {number}; return 0; }} return 1; }}\n")
    library = compile_library(tmp_path / "lib.so", "gcc", "-fPIC", "-O2", source)

    assert release_in(library) == ""


def make_versions(folder: Path, *functions: tuple[int, int]) -> Path:
    """A library with functions that write a number, or return an error for a null pointer."""
    source = folder / "versions.s"
    source.write_text(
        "".join(
            f"test %rdi,%rdi\nje 1f\nmovl ${number},(%rdi)\nxor %eax,%eax\nret\n"
            f"1: mov ${error},%eax\nret\n"
            for number, error in functions
        )
    )
    return compile_library(folder / "lib.so", "gcc", source)


@pytest.mark.parametrize(
    ("functions", "release"),
    [
        (((12200, 3),), ""),  # cuSOLVER 12.2, as it is in NVIDIA's own library
        (((12000, 3),), ""),  # cuSOLVER 12.0
        (((12200, 3), (13000, 1)), "13.0"),
        (((12200, 1),), ""),  # there is no CUDA 12.20
        (((12070, 1),), ""),
        (((13000, 1), (12080, 1)), ""),
    ],
)
def test_takes_no_version_of_other_library_for_the_runtime(
    tmp_path: Path, functions: tuple[tuple[int, int], ...], release: str
) -> None:
    assert release_in(make_versions(tmp_path, *functions)) == release
