"""The host compiler: which one is on the machine, and which one this nvcc supports."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.system.process import run, which
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        """12 of 12.2.0."""
        return int(self.version.split(".", maxsplit=1)[0])


def find_host_compilers(environ: Mapping[str, str], triplet: str = "") -> tuple[HostCompiler, ...]:
    """The compilers of this machine, those that are tried first come first.

    `CXX` of the environment where it is set, and then nothing else; otherwise the system's `g++`,
    then its `g++-15`, `g++-14`, … from the newest downwards.

    Args:
        environ: `CXX` is read from it, unless the compilers are for other machines.
        triplet: of the machines that they compile for, `aarch64-linux-gnu`; empty: this one's.
    """
    prefix = f"{triplet}-" if triplet else ""
    if environ.get("CXX") and not triplet:
        chosen = which(environ["CXX"], environ.get("PATH", SYSTEM_PATH))
        names = [chosen] if chosen else []
    else:
        versions = (f"{prefix}g++-{major}" for major in range(_NEWEST_TRIED, 8, -1))
        candidates = [f"{prefix}g++", *versions]
        names = [found for name in candidates if (found := which(name, SYSTEM_PATH))]
    answers = [read_compiler(Path(name)) for name in names]
    return tuple(compiler for compiler in answers if compiler)


def newest_gcc_for(cuda_home: Path) -> int | None:
    """The newest major version of GCC that this toolkit's own header accepts, if it says so."""
    header = cuda_home / "include" / "crt" / "host_config.h"
    try:
        found = _NEWEST_GCC.search(read_text(header, errors="replace"))
    except OSError:
        return None
    return int(found[1]) if found else None


def archs_of(program: Path, tmp: Path) -> frozenset[str]:
    """The archs that an nvcc or ptxas makes machine code for: `90`, `90a`, `100f`.

    Raises:
        CommandFailedError: it doesn't run.

    Args:
        program: what to ask.
        tmp: a folder for the temporary files that nvcc writes even then.
    """
    said = run([program, "--help"], env={"PATH": SYSTEM_PATH, "TMPDIR": str(tmp)}).output
    return frozenset(_LISTED_ARCH.findall(said))


def read_compiler(cxx: Path) -> HostCompiler | None:
    """Let a GCC say which one it is; None where it isn't one that runs."""
    try:
        env = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
        version = run([cxx, "-dumpfullversion", "-dumpversion"], env=env).output.strip()
        banner = run([cxx, "--version"], env=env).output.splitlines()[0]
    except (CommandFailedError, IndexError):
        return None
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        return None
    cc = cxx.with_name(cxx.name.replace("g++", "gcc").replace("c++", "cc"))
    return HostCompiler(
        cxx=cxx, cc=cc if os.access(cc, os.X_OK) else cxx, version=version, banner=banner
    )
