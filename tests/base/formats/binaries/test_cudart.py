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
