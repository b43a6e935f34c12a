"""The CUDA home in a conda prefix: links that complete conda-forge's layout, and its own GCC.

conda-forge keeps CUDA's headers and libraries in `targets/x86_64-linux` and its compilers under
names with a triplet; builds need `include`, `lib64` and plain names. Layout: the recipes of
conda-forge's cuda-nvcc-impl, cuda-cudart, ctng-compilers and binutils feedstocks.
"""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.errors import ToolchainError
from cuwheel.base.system.compilers import HostCompiler, newest_gcc_for, read_compiler
from cuwheel.build.toolchains.cuda_home import wrap_nvlink

_TARGET = Path("targets") / "x86_64-linux"
_TRIPLET = "x86_64-conda-linux-gnu"
# NVIDIA's libraries outside of the toolkit; conda-forge has them only in `lib`.
_OTHER_LIBRARIES = ("libcudnn", "libcusparseLt", "libcutensor", "libnccl")
_PROGRAMS = Path("cuwheel") / "bin"


def complete_prefix(prefix: Path) -> None:
    """Add `lib64`, CUDA's headers in `include`, plain names of the compilers, a quiet `nvlink`."""
    if not (prefix / "lib64").exists():
        (prefix / "lib64").symlink_to(_TARGET / "lib")
    for library in sorted((prefix / "lib").glob("lib*.so*")):
        link = prefix / _TARGET / "lib" / library.name
        # Not all of `lib` may be offered to the linker: conda's own libstdc++ is there too.
        if library.name.startswith(_OTHER_LIBRARIES) and not link.exists():
            link.symlink_to(Path("..") / ".." / ".." / "lib" / library.name)
    include = prefix / "include"
    include.mkdir(exist_ok=True)
    for header in sorted((prefix / _TARGET / "include").glob("*")):
        if not (include / header.name).exists():
            (include / header.name).symlink_to(Path("..") / _TARGET / "include" / header.name)
    programs = programs_of(prefix)
    programs.mkdir(parents=True)
    for program in sorted((prefix / "bin").glob(f"{_TRIPLET}-*")):
        plain = programs / program.name.removeprefix(f"{_TRIPLET}-")
        plain.symlink_to(Path("..") / ".." / "bin" / program.name)
    wrap_nvlink(prefix)


def programs_of(prefix: Path) -> Path:
    """Return the folder with a prefix's compilers and binutils under their plain names."""
    return prefix / _PROGRAMS


def compilers_of(prefix: Path) -> tuple[Path, Path]:
    """Return the paths of a prefix's C and C++ compiler."""
    folder = prefix / "bin"
    return folder / f"{_TRIPLET}-gcc", folder / f"{_TRIPLET}-g++"


def sysroot_of(prefix: Path) -> Path:
    """Return the folder with the C library that a prefix's compilers link against."""
    return prefix / _TRIPLET / "sysroot"


def check_own_compiler(prefix: Path, owner: str) -> HostCompiler:
    """Check that the prefix has a working GCC that its nvcc supports.

    Raises:
        ToolchainError: it has none, or nvcc rejects it.
    """
    cc, cxx = compilers_of(prefix)
    compiler = read_compiler(cxx)
    if compiler is None or read_compiler(cc) is None:
        raise ToolchainError(
            f"{owner} has no working host compiler",
            why=f"{cc.name} and {cxx.name} come from gcc_linux-64 and gxx_linux-64",
            fix="add both to its environment.yml, then write the lock again: `nox -s lock -- "
            "toolchain:…`",
        )
    newest = newest_gcc_for(prefix)
    if newest is not None and compiler.major > newest:
        raise ToolchainError(
            f"{owner} has GCC {compiler.version}, which its nvcc rejects",
            why=f"nvcc's host_config.h supports GCC up to {newest}; `-allow-unsupported-compiler` "
            "only moves the failure into the headers (`_Float32` is undefined)",
            fix=f"pin gcc_linux-64 and gxx_linux-64 to {newest} or older in its environment.yml, "
            "then write the lock again: `nox -s lock -- toolchain:…`",
        )
    return compiler
