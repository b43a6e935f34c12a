"""The CUDA toolkits of a machine: where they are, of which kind and release, what they lack.

Layouts, with their sources:

- NVIDIA's packages and runfile: all in `/usr/local/cuda-12.4`, to which `/usr/local/cuda` and
  `/etc/alternatives` link (CUDA Installation Guide for Linux).
- Debian's and Ubuntu's nvidia-cuda-toolkit: `/usr/bin/nvcc` is a script that calls
  `/usr/lib/nvidia-cuda-toolkit/bin/nvcc`; headers are in `/usr/include`, libraries in
  `/usr/lib/<triplet>` (file lists of 11.8.89~11.8.0-5~deb12u1 and 12.4.131~12.4.1-2).
- NVIDIA's HPC SDK: `<top>/cuda/12.4` with the compiler and `<top>/math_libs/12.4` with cuBLAS and
  others; `<top>/compilers/bin/nvcc` chooses one (HPC SDK Installation Guide).
- conda: programs in `<prefix>/bin`, the rest in `<prefix>/targets/x86_64-linux` (recipes of
  conda-forge's cuda-nvcc-tools and cuda-cudart).
- Environment Modules and Lmod name NVIDIA's layout by variables: `EBROOTCUDA` (EasyBuild),
  `CUDA_HOME` (Spack), `CUDA_ROOT`, `CUDA_DIR`, `CUDATOOLKIT_HOME` (Cray), `NVHPC_CUDA_HOME`.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuwheel.base.system.process import output_within
from cuwheel.base.system.regular_files import open_file, read_text

Kind = Literal["nvidia", "debian", "hpc", "conda", "module"]

HOMES = ("CUDA_HOME", "CUDA_PATH")  # what builds read: PyTorch, CMake, setup.py of packages
_MODULES = (
    *("EBROOTCUDA", "CUDA_ROOT", "CUDA_DIR", "CUDATOOLKIT_HOME", "NVHPC_CUDA_HOME"),
    "CUDA_TOOLKIT_ROOT_DIR",
)
TIME_LIMIT = 5.0  # seconds for nvcc to print its version
_SCRIPTS = 8  # that call each other
_LARGEST_SCRIPT = 1 << 16  # bytes
_RELEASE = re.compile(r"\brelease (\d+\.\d+), V(\d+(?:\.\d+)+)")  # nvcc --version
_CALLED = re.compile(r"^\s*exec\s+[\"']?(/[^\s\"']*/nvcc)\b", re.MULTILINE)
_HERE = re.compile(r"^#\$ _HERE_=(/.*)$", re.MULTILINE)  # nvcc --dryrun
_RUNTIME = re.compile(r"#define\s+CUDART_VERSION\s+(\d+)")  # 12040 in cuda_runtime_api.h
_LIBCUDART = re.compile(r"libcudart\.so\.(\d+\.\d+)\.\d+")
_TARGETS = {"aarch64": "sbsa"}  # NVIDIA's name for servers; Jetson's is aarch64
_DEBIAN = Path("usr", "lib", "nvidia-cuda-toolkit")
_HPC_SDK = Path("opt", "nvidia", "hpc_sdk")


@dataclass(frozen=True, kw_only=True)
class InstalledToolkit:
    """A CUDA toolkit, or a part of one.

    Attributes:
        home: its folder; `/usr` of Debian's, the environment of conda's.
        kind: `nvidia`: one folder with `bin`, `include`, `lib64`, `nvvm`; `module`: the same,
            where only a module's variable leads to it; `debian`, `hpc`, `conda`.
        found: what leads to it: `PATH`, `CUDA_HOME`, `/usr/local/cuda`, in the order of builds.
        path: the nvcc that was found first; None: it has none.
        nvcc: the compiler itself, which a script at `path` may call.
        headers: the folder with `cuda_runtime.h`; None: it has none.
        header_release: of those, `12.4`; empty: not known.
        libraries: the folder with `libcudart`; None: it has none.
        release: of nvcc, `12.4`, otherwise of headers or libraries; empty: not known.
        version: of nvcc, `12.4.131`; empty: not known.
        fault: why nvcc doesn't print it.
        lacks: what a build needs and it hasn't: `nvcc`, `ptxas`, `headers`, `libcudart`.
    """

    home: Path
    kind: Kind
    found: tuple[str, ...]
    path: Path | None = None
    nvcc: Path | None = None
    headers: Path | None = None
    header_release: str = ""
    libraries: Path | None = None
    release: str = ""
    version: str = ""
    fault: str = ""
    lacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a text for messages: `CUDA 11.8 of Debian's nvidia-cuda-toolkit in /usr`."""
        owner = {
            "debian": " of the distribution's nvidia-cuda-toolkit",
            "hpc": " of NVIDIA's HPC SDK",
            "conda": " of a conda environment",
        }.get(self.kind, "")
        lacks = f" (without {', '.join(self.lacks)})" if self.lacks else ""
        return f"CUDA {self.release or 'of unknown release'}{owner} in {self.home}{lacks}"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A place where a toolkit may be.

    Attributes:
        source: what leads there.
        home: a folder; None: only nvcc is known.
        nvcc: the program's path, which needn't exist.
        root: the machine's root folder.
    """

    source: str
    home: Path | None
    nvcc: Path
    root: Path


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
    is_debian = home in {root / "usr", root / "usr" / "lib" / "cuda", root / _DEBIAN}
    debian = root / "usr" / "bin" / "nvcc"
    return debian if is_debian and debian.exists() else home / "bin" / "nvcc"


def read_toolkit(place: Candidate, environ: Mapping[str, str]) -> InstalledToolkit | None:
    """Return the toolkit at a place; its nvcc is run. None: nothing of one is there."""
    if not (os.access(place.nvcc, os.X_OK) and place.nvcc.is_file()):
        return _without_nvcc(place)
    is_script, nvcc = _follow_script(place.nvcc.resolve(), place.root)
    program = nvcc if place.root != Path("/") else place.nvcc
    output, fault = output_within([program, "--version"], TIME_LIMIT, environ)
    match = _RELEASE.search(output)
    if match and is_script:
        nvcc = _ask_for_nvcc(nvcc, environ)
    release, version = match.groups() if match else ("", "")
    toolkit = InstalledToolkit(
        home=_home_of(nvcc, place.root),
        kind="nvidia",
        found=(place.source,),
        path=place.nvcc,
        nvcc=nvcc,
        release=release,
        version=version,
        fault="" if match else fault or "it doesn't state its release",
    )
    return _with_parts(toolkit, place.root)


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


def _without_nvcc(place: Candidate) -> InstalledToolkit | None:
    """Return headers or libraries that have no compiler; of shared folders only headers count."""
    home = place.home
    if home is None or not home.is_dir():
        return None
    kind: Kind = "debian" if home == place.root / "usr" else "nvidia"
    toolkit = InstalledToolkit(home=home, kind=kind, found=(place.source,))
    parts = _with_parts(toolkit, place.root)
    is_shared = place.source == "CONDA_PREFIX" or kind == "debian"
    return parts if parts.headers or (parts.libraries and not is_shared) else None


def _follow_script(program: Path, root: Path) -> tuple[bool, Path]:
    """Return the nvcc that scripts call by an absolute path, and if that is a script too."""
    for _ in range(_SCRIPTS):
        with open_file(program) as stream:
            start = stream.read(_LARGEST_SCRIPT)
        if not start.startswith(b"#!"):
            return False, program
        called = _CALLED.search(start.decode(errors="replace"))
        path = root / called[1].lstrip("/") if called else program
        if not path.is_file() or path.resolve() == program:
            break
        program = path.resolve()
    return True, program


def _ask_for_nvcc(script: Path, environ: Mapping[str, str]) -> Path:
    """Return the nvcc that a script calls, which prints its folder and what it would do."""
    command: list[str | Path] = [script, "--dryrun", "-x", "cu", os.devnull]
    here = _HERE.search(output_within(command, TIME_LIMIT, environ)[0])
    path = Path(here[1], "nvcc") if here else script
    return path.resolve() if path.is_file() else script


def _home_of(nvcc: Path, root: Path) -> Path:
    is_debian = nvcc.parent == (root / _DEBIAN / "bin").resolve()
    return root / "usr" if is_debian else nvcc.parent.parent


def _with_parts(toolkit: InstalledToolkit, root: Path) -> InstalledToolkit:
    """Return it with its kind, headers and libraries, and what it lacks."""
    home, machine = toolkit.home, platform.machine()
    kind = toolkit.kind
    if home == root / "usr":
        kind = "debian"
    elif (home / "conda-meta").is_dir():
        kind = "conda"
    elif home.parent.name == "cuda" and (home.parents[1] / "compilers").is_dir():
        kind = "hpc"
    names = (f"{_TARGETS.get(machine, machine)}-linux", f"{machine}-linux")
    targets = next(filter(Path.is_dir, (home / "targets" / name for name in names)), home)
    includes = (home / "include", targets / "include")
    libraries: tuple[Path, ...] = (home / "lib64", targets / "lib", home / "lib")
    if kind == "debian":
        libraries = (home / "lib" / f"{machine}-linux-gnu",)
    headers = next((each for each in includes if (each / "cuda_runtime.h").is_file()), None)
    folder = next((each for each in libraries if any(each.glob("libcudart*"))), None)
    of_headers = header_release(headers) if headers else ""
    has_ptxas = toolkit.nvcc is None or (home / "bin" / "ptxas").exists()
    parts = {"nvcc": toolkit.nvcc, "ptxas": has_ptxas, "headers": headers, "libcudart": folder}
    return dataclasses.replace(
        toolkit,
        kind=kind,
        headers=headers,
        header_release=of_headers,
        libraries=folder,
        release=toolkit.release or of_headers or _library_release(folder),
        lacks=tuple(name for name, part in parts.items() if not part),
    )


def header_release(folder: Path) -> str:
    """Return the release of the CUDA headers in a folder, `12.4`; empty: there are none."""
    try:
        match = _RUNTIME.search(read_text(folder / "cuda_runtime_api.h", errors="replace"))
    except OSError:
        return ""
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else ""


def _library_release(folder: Path | None) -> str:
    names = sorted(path.name for path in folder.glob("libcudart.so.*.*")) if folder else []
    return next((match[1] for name in names if (match := _LIBCUDART.match(name))), "")
