"""The search for CUDA toolkits on a machine, in the order in which builds find them.

Environment Modules and Lmod name a toolkit by variables: `EBROOTCUDA` (EasyBuild), `CUDA_HOME`
(Spack), `CUDA_ROOT`, `CUDA_DIR`, `CUDATOOLKIT_HOME` (Cray), `NVHPC_ROOT` and `NVHPC_CUDA_HOME`
(modules of the HPC SDK).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuwheel.check.cuda.installed_toolkits import (
    DEBIAN,
    Candidate,
    InstalledToolkit,
    read_toolkit,
)

HOMES = ("CUDA_HOME", "CUDA_PATH")  # what builds read: PyTorch, CMake, setup.py of packages
_MODULES = (
    *("EBROOTCUDA", "CUDA_ROOT", "CUDA_DIR", "CUDATOOLKIT_HOME", "NVHPC_CUDA_HOME"),
    "CUDA_TOOLKIT_ROOT_DIR",
)
_HPC_SDK = Path("opt", "nvidia", "hpc_sdk")


def find_toolkits(
    environ: Mapping[str, str], root: Path = Path("/")
) -> tuple[InstalledToolkit, ...]:
    """Return all toolkits; the one that a build takes first.

    Args:
        environ: of the build: variables that name toolkits, `PATH`, `CONDA_PREFIX`.
        root: folder in which `/usr` and `/opt` are searched.
    """
    places = toolkit_candidates(environ, root)
    return merge_toolkits(read_toolkit(place, environ) for place in places)


def toolkit_candidates(environ: Mapping[str, str], root: Path = Path("/")) -> tuple[Candidate, ...]:
    """Return the places to search, in the order of PyTorch and CMake, without running anything."""
    candidates = (
        Candidate(source=source, home=home, nvcc=nvcc or _nvcc_of(home or root, root), root=root)
        for source, home, nvcc in _places(environ, root)
    )
    return tuple(each for each in candidates if each.home or os.access(each.nvcc, os.X_OK))


def _places(
    environ: Mapping[str, str], root: Path
) -> Iterator[tuple[str, Path | None, Path | None]]:
    if environ.get("CUDACXX"):
        yield "CUDACXX", None, Path(environ["CUDACXX"])
    for name in HOMES:
        if environ.get(name):
            yield name, Path(environ[name]), None
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        yield "PATH", None, Path(folder or ".", "nvcc")
    for name in _MODULES:
        if environ.get(name):
            yield name, Path(environ[name]), None
    if environ.get("CONDA_PREFIX"):
        yield "CONDA_PREFIX", Path(environ["CONDA_PREFIX"]), None
    sdks = [environ["NVHPC_ROOT"]] if environ.get("NVHPC_ROOT") else []
    for home in (
        *sorted((root / "usr" / "local").glob("cuda*")),
        root / "opt" / "cuda",  # Arch Linux, Gentoo
        *(home for sdk in sdks for home in sorted(Path(sdk, "cuda").glob("[1-9]*"))),
        *sorted((root / _HPC_SDK).glob("*/[1-9]*/cuda/[1-9]*")),
    ):
        yield str(home), home, None
    yield str(root / "usr"), root / "usr", None


def _nvcc_of(home: Path, root: Path) -> Path:
    is_debian = home in {root / "usr", root / "usr" / "lib" / "cuda", root / DEBIAN}
    debian = root / "usr" / "bin" / "nvcc"
    return debian if is_debian and debian.exists() else home / "bin" / "nvcc"


def merge_toolkits(
    toolkits: Iterable[InstalledToolkit | None],
) -> tuple[InstalledToolkit, ...]:
    """Return each toolkit once, with all that leads to it."""
    merged: dict[tuple[Path, Path | None], InstalledToolkit] = {}
    for toolkit in filter(None, toolkits):
        key = (toolkit.home.resolve(), toolkit.nvcc)
        first = merged.get(key, dataclasses.replace(toolkit, found=()))
        found = tuple(dict.fromkeys((*first.found, *toolkit.found)))
        merged[key] = dataclasses.replace(first, found=found)
    return tuple(
        dataclasses.replace(each, kind="module")
        if each.kind == "nvidia"
        and set(each.found) <= {"PATH", *HOMES, *_MODULES}
        and set(each.found) & set(_MODULES)
        else each
        for each in merged.values()
    )
