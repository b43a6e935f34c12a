"""A CUDA home from conda packages in conda-forge's layout, and its own compilers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.base.errors import ToolchainError
from cuwheel.base.formats.binaries.elf import Elf, read_elf
from cuwheel.base.system.process import run
from cuwheel.build.toolchains.conda_layout import (
    check_own_compiler,
    complete_prefix,
    programs_of,
    sysroot_of,
)
from cuwheel.build.workspace.records import Toolchain

RDC = """
__device__ int more(int a);
__global__ void add(int *a) { *a = more(*a); }
__device__ int more(int a) { return a + 1; }
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A prefix as installed: one CUDA header, one foreign header, one compiler."""
    texts = {
        "targets/x86_64-linux/include/cuda.h": "// CUDA's\n",
        "targets/x86_64-linux/include/shared.h": "// CUDA's\n",
        "targets/x86_64-linux/include/crt/host_config.h": "#if __GNUC__ > 15\n",
        "targets/x86_64-linux/lib/libcudart.so": "",
        "include/shared.h": "// foreign\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("gcc", "g++", "ld"):
        add_program(tmp_path / "bin" / f"x86_64-conda-linux-gnu-{name}", "echo 12.4.0")
    return tmp_path


def add_program(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_home_has_headers_and_libraries_where_builds_look(prefix: Path) -> None:
    complete_prefix(prefix)

    assert (prefix / "include" / "cuda.h").read_text() == "// CUDA's\n"
    assert (prefix / "include" / "crt" / "host_config.h").is_file()
    assert (prefix / "lib64" / "libcudart.so").is_file()


@pytest.mark.parametrize(
    ("name", "is_offered"), [("libcudnn.so.9", True), ("libstdc++.so.6", False)]
)
def test_home_offers_what_belongs_to_cuda(prefix: Path, name: str, *, is_offered: bool) -> None:
    """conda-forge has cuDNN's libraries next to its own C++ library."""
    (prefix / "lib").mkdir()
    (prefix / "lib" / name).write_text("a library\n")

    complete_prefix(prefix)

    assert (prefix / "lib64" / name).is_file() == is_offered


def test_home_keeps_headers_that_are_there(prefix: Path) -> None:
    complete_prefix(prefix)

    assert (prefix / "include" / "shared.h").read_text() == "// foreign\n"


def test_home_moves_as_a_whole(prefix: Path) -> None:
    """It is made under another name than it gets."""
    complete_prefix(prefix)

    moved = prefix.rename(prefix.with_name("elsewhere"))

    assert (moved / "include" / "cuda.h").is_file()
    assert (moved / "lib64" / "libcudart.so").is_file()
    assert run([programs_of(moved) / "gcc"], env={}).output == "12.4.0\n"


def test_compilers_have_plain_names(prefix: Path) -> None:
    complete_prefix(prefix)

    assert {path.name for path in programs_of(prefix).iterdir()} == {"gcc", "g++", "ld"}


def test_takes_compiler_that_nvcc_takes(prefix: Path) -> None:
    complete_prefix(prefix)

    assert check_own_compiler(prefix, "the lock").version == "12.4.0"


def test_refuses_compiler_that_nvcc_refuses(prefix: Path) -> None:
    """GCC 13 for nvcc 12.2: `_Float32` errors after hundreds of lines without this check."""
    header = prefix / "targets/x86_64-linux/include/crt/host_config.h"
    header.write_text("#if __GNUC__ > 12\n")
    add_program(prefix / "bin" / "x86_64-conda-linux-gnu-g++", "echo 13.3.0")
    complete_prefix(prefix)

    with pytest.raises(ToolchainError, match=r"has GCC 13\.3\.0") as caught:
        check_own_compiler(prefix, "the lock")

    assert "supports GCC up to 12" in caught.value.why
    assert "environment.yml" in caught.value.fix


@pytest.mark.parametrize("name", ["gcc", "g++"])
def test_refuses_prefix_without_a_compiler(prefix: Path, name: str) -> None:
    (prefix / "bin" / f"x86_64-conda-linux-gnu-{name}").unlink()
    complete_prefix(prefix)

    with pytest.raises(ToolchainError, match="no working host compiler"):
        check_own_compiler(prefix, "the lock")


@pytest.mark.nightly
def test_nvcc_finds_everything_of_the_toolchain(
    whole_conda_toolchain: Toolchain, tmp_path: Path
) -> None:
    library = compile_cuda(whole_conda_toolchain, tmp_path, "-lcublasLt", "-lcusparse")

    assert [name for name in elf_of(library).needed if "cu" in name] == [
        "libcublasLt.so.13",
        "libcusparse.so.12",
        "libcudart.so.13",
    ]


@pytest.mark.e2e
def test_nvcc_links_against_the_drivers_stub(conda_toolchain: Toolchain, tmp_path: Path) -> None:
    library = compile_cuda(conda_toolchain, tmp_path, "-lcuda")

    assert "libcuda.so.1" in elf_of(library).needed


def test_sysroot_is_where_the_compiler_has_its_c_library(conda_toolchain: Toolchain) -> None:
    assert conda_toolchain.cc

    output = run([conda_toolchain.cc, "-print-file-name=libc.so"], env=PATHLESS).output.strip()

    libc = sysroot_of(conda_toolchain.home) / "usr" / "lib64" / "libc.so"
    assert libc.samefile(output)


def test_device_linker_leaves_no_path_behind(conda_toolchain: Toolchain, tmp_path: Path) -> None:
    library = compile_cuda(conda_toolchain, tmp_path, "-rdc=true", "-lcudadevrt")

    content = library.read_bytes().replace(bytes(conda_toolchain.home / "lib"), b"")  # its rpath
    assert bytes(conda_toolchain.home) not in content


def test_cmake_and_ninja_run(conda_toolchain: Toolchain) -> None:
    bins = conda_toolchain.home / "bin"

    output = [run([bins / name, "--version"], env={}).output for name in ("cmake", "ninja")]

    assert output[0].startswith("cmake version 4.")
    assert output[1].startswith("1.13.")


def test_pkg_config_names_the_toolchain(conda_toolchain: Toolchain) -> None:
    [text] = (conda_toolchain.home / "lib" / "pkgconfig").glob("cudart-*.pc")

    assert text.read_text().startswith(f"cudaroot={conda_toolchain.home}\n")


PATHLESS = {"PATH": os.defpath}


def compile_cuda(toolchain: Toolchain, folder: Path, *flags: str) -> Path:
    """Compile with the toolchain's own compilers, by their absolute paths."""
    source, library = folder / "kernel.cu", folder / "kernel.so"
    source.write_text(RDC)
    nvcc, host = toolchain.home / "bin" / "nvcc", f"-ccbin={toolchain.cxx}"
    # Libraries count although nothing of them is called.
    always = (
        "-arch=sm_90",
        "-shared",
        "-Xcompiler=-fPIC",
        "-cudart=shared",
        "-Xlinker=--no-as-needed",
    )
    run([nvcc, host, *always, "-o", library, source, *flags], env=PATHLESS, cwd=folder)
    return library


def elf_of(library: Path) -> Elf:
    with library.open("rb") as stream:
        return read_elf(stream)
