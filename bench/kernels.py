"""What the benchmark of memory compiles: kernel files of flash-attn, or anybody's, and how."""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import Prepared, prepare
from cuwheel.base.caller import read_caller
from cuwheel.base.errors import UsageError
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.console import Console
from cuwheel.base.system.machine import usable_cores
from cuwheel.base.system.process import run, which
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.pinned import fetch_pinned
from cuwheel.build.recipe.source import Sdist
from cuwheel.build.workspace.workspace import bare_workspace

FLASH_ATTN = Sdist(
    project="flash-attn",
    version="2.8.3",
    sha256="1e71dd64a9e0280e0447b8a0c2541bad4bf6ac65bdeaa2f90e51a9e57de0370d",
)
# Of its kernel files, below csrc/flash_attn/src, those that want between 3 and 4 GB of cicc. With
# nvcc 13.0 for sm_80: hdim32 3450 MB and 135 CPU seconds, causal 3420 MB and 107, hdim64 3750 MB
# and 120. Backward passes are out: hdim64 takes 6230 MB.
FILES = tuple(
    f"flash_fwd_{size}_{number}{mask}_sm80.cu"
    for size in ("hdim32", "hdim64")
    for number in ("fp16", "bf16")
    for mask in ("_causal", "")
)
# As its setup.py has them, and PyTorch's BuildExtension.
_FLAGS = (
    *("-O3", "-std=c++17", "-Xcompiler", "-fPIC"),
    *("-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__"),
    *("-U__CUDA_NO_HALF2_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__"),
    *("--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math"),
)
_TORCH_INCLUDES = ("torch/include", "torch/include/torch/csrc/api/include")
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is compiled, and where.

    Attributes:
        prepared: a target, for its toolchain, its compilers and its packages' headers.
        sources: the `.cu` files.
        includes: folders of their headers.
        arch: compute capability.
        limit: bytes.
        folder: for everything that is made.
        ninja: the program.
        origin: where the files are from, in words.
    """

    prepared: Prepared
    sources: tuple[Path, ...]
    includes: tuple[Path, ...]
    arch: str
    limit: int
    folder: Path
    ninja: str
    origin: str

    def command(self, nvcc: Path, source: Path) -> str:
        """A compile, as a line of a ninja file."""
        arch = f"-gencode=arch=compute_{self.arch},code=sm_{self.arch}"
        includes = [word for path in self.includes for word in ("-isystem", str(path))]
        words = [str(nvcc), "-ccbin", str(self.prepared.compilers[1]), *_FLAGS, arch, *includes]
        return " ".join([*words, "-c", str(source), "-o", f"{source.stem}.o"])


def plan_of(asked: argparse.Namespace, console: Console) -> Plan:
    """What a command line asks for, with everything prepared.

    Args:
        asked: the parsed options.
        console: shows how it goes.

    Raises:
        CuwheelError: something can't be had.
    """
    folder = asked.work.absolute()
    words = [f"{asked.package}-{asked.toolkit}", "--python", asked.python, "--arch", asked.arch]
    words += ["--source", asked.package_source] if asked.package_source else []
    prepared = prepare(words, folder, usable_cores(os.environ), console)
    sources, own = _sources(asked, folder, console)
    site = prepared.python.site_packages
    headers = [site / name for name in _TORCH_INCLUDES if (site / name).is_dir()]
    base = prepared.python.base_python.resolve().parent.parent
    python = base / "include" / f"python{prepared.target.python}"
    ninja = which("ninja", f"{prepared.python.python.parent}:{SYSTEM_PATH}")
    if ninja is None:
        raise UsageError(
            "ninja is missing",
            why=f"neither {prepared.python.python.parent} nor the system has it",
            fix="use a package whose build needs it",
        )
    return Plan(
        prepared=prepared,
        sources=sources,
        includes=(*own, *headers, python),
        arch=asked.arch,
        limit=asked.limit * _MIB,
        folder=folder,
        ninja=ninja,
        origin=asked.sources.name if asked.sources else _origin(),
    )


def _sources(
    asked: argparse.Namespace, folder: Path, console: Console
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The files, and the folders of headers of their own."""
    if asked.sources:
        return tuple(sorted(asked.sources.absolute().glob("*.cu")))[: asked.files], ()
    fix = "name a folder of .cu files with --sources"
    archive = fetch_pinned(FLASH_ATTN, bare_workspace(console, read_caller()), fix)
    csrc = unpack_archive(archive, folder / "flash-attn").top / "csrc"
    kernels = csrc / "flash_attn" / "src"
    own = (csrc / "flash_attn", kernels, csrc / "cutlass" / "include")
    return tuple(kernels / name for name in FILES[: asked.files]), own


def _origin() -> str:
    return f"{FLASH_ATTN.project} {FLASH_ATTN.version}"


def default_jobs(ninja: str) -> int:
    """How many jobs ninja runs when it isn't told; its help says it.

    Args:
        ninja: the program.
    """
    said = run([ninja, "--help"], env={"PATH": SYSTEM_PATH}, check=False).output
    found = re.search(r"-j N .*default=(\d+)", said)
    return int(found[1]) if found else 0
