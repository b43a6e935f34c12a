"""Host compilers: those of this machine, and the newest that an nvcc supports."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.process import run, which
from cuwheel.base.system.regular_files import read_text

SYSTEM_PATH = "/usr/bin:/bin"  # where distributions put compilers; a caller's PATH doesn't count

_NEWEST_TRIED = 29  # major release of GCC; 15 was out in 2025, and one a year follows

# `#if __GNUC__ > 15` before `#error -- unsupported GNU version!` in crt/host_config.h
_NEWEST_GCC = re.compile(r"#if\s+__GNUC__\s*>\s*(\d+)")
_LISTED_ARCH = re.compile(r"'sm_(\d+[af]?)'")  # in `nvcc --help` and `ptxas --help`


@dataclass(frozen=True, kw_only=True)
class HostCompiler:
    """A GCC.

    Attributes:
        cxx: path of its `g++`.
        cc: path of its `gcc`.
        version: `12.2.0`.
        banner: first line of `--version`: names the distribution's build too.
    """

    cxx: Path
    cc: Path
    version: str
    banner: str

    @property
    def major(self) -> int:
        """Major version: 12 of 12.2.0."""
        return int(self.version.split(".", maxsplit=1)[0])


def find_host_compilers(environ: Mapping[str, str], triplet: str = "") -> tuple[HostCompiler, ...]:
    """Return the compilers of this machine, in the order in which they are tried.

    `CXX` of the environment where it is set, and then nothing else; otherwise the system's `g++`,
    then `g++-15`, `g++-14`, … from the newest downwards.

    Args:
        environ: `CXX` is read from it, unless the compilers are for other machines.
        triplet: target of a cross compiler, `aarch64-linux-gnu`; empty: this machine.
    """
    prefix = f"{triplet}-" if triplet else ""
    if environ.get("CXX") and not triplet:
        programs = [which(environ["CXX"], environ.get("PATH", SYSTEM_PATH))]
    else:
        versions = (f"{prefix}g++-{major}" for major in range(_NEWEST_TRIED, 8, -1))
        programs = [which(name, SYSTEM_PATH) for name in (f"{prefix}g++", *versions)]
    compilers = (read_compiler(Path(program)) for program in programs if program)
    return tuple(compiler for compiler in compilers if compiler)


def newest_gcc_for(cuda_home: Path) -> int | None:
    """Return the newest major version of GCC that this toolkit's header accepts; None: no limit."""
    header = cuda_home / "include" / "crt" / "host_config.h"
    try:
        match = _NEWEST_GCC.search(read_text(header, errors="replace"))
    except OSError:
        return None
    return int(match[1]) if match else None


def archs_of(program: Path, tmp: Path) -> frozenset[str]:
    """Return the archs that an nvcc or ptxas compiles for: `90`, `90a`, `100f`.

    Raises:
        CommandFailedError: it doesn't run.
    """
    output = run([program, "--help"], env={"PATH": SYSTEM_PATH, "TMPDIR": str(tmp)}).output
    return frozenset(_LISTED_ARCH.findall(output))


def output_of(program: Path | str, *options: str) -> str:
    """Run a program without the caller's environment; return its output, empty where it fails."""
    try:
        return run([program, *options], env={"PATH": SYSTEM_PATH, "LC_ALL": "C"}).output.strip()
    except CommandFailedError:
        return ""


def read_compiler(cxx: Path) -> HostCompiler | None:
    """Run a GCC for its version and banner; None where it isn't one, or doesn't run."""
    version = output_of(cxx, "-dumpfullversion", "-dumpversion")
    banner, _, _ = output_of(cxx, "--version").partition("\n")
    if not banner or not re.fullmatch(r"\d+(\.\d+)*", version):
        return None
    cc = cxx.with_name(cxx.name.replace("g++", "gcc").replace("c++", "cc"))
    return HostCompiler(
        cxx=cxx, cc=cc if os.access(cc, os.X_OK) else cxx, version=version, banner=banner
    )
