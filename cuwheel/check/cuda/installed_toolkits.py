"""A CUDA toolkit of the machine: of which kind and release it is, its parts, what it lacks.

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
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuwheel.base.system.process import output_within
from cuwheel.base.system.regular_files import open_file, read_text

Kind = Literal["nvidia", "debian", "hpc", "conda", "module"]

TIME_LIMIT = 5.0  # seconds for nvcc to print its version
_ERROR = re.compile(r"(?i)\berror\b|\bfatal\b|No such file")
_SHOWN = 300  # characters of a program's output
_SCRIPTS = 8  # that call each other
_LARGEST_SCRIPT = 1 << 16  # bytes
_RELEASE = re.compile(r"\brelease (\d+\.\d+), V(\d+(?:\.\d+)+)")  # nvcc --version
_CALLED = re.compile(r"^\s*exec\s+[\"']?(/[^\s\"']*/nvcc)\b", re.MULTILINE)
_HERE = re.compile(r"^#\$ _HERE_=(/.*)$", re.MULTILINE)  # nvcc --dryrun
_RUNTIME = re.compile(r"#define\s+CUDART_VERSION\s+(\d+)")  # 12040 in cuda_runtime_api.h
_LIBCUDART = re.compile(r"libcudart\.so\.(\d+\.\d+)\.\d+")
_TARGETS = {"aarch64": "sbsa"}  # NVIDIA's name for servers; Jetson's is aarch64
DEBIAN = Path("usr", "lib", "nvidia-cuda-toolkit")


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
        """Return a text for messages: `CUDA 11.8 of NVIDIA's HPC SDK in /opt/…/cuda/11.8`."""
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
        fault="" if match else _fault_in(output, fault),
    )
    return _with_parts(toolkit, place.root)


def _fault_in(output: str, fault: str) -> str:
    """Return why nvcc doesn't state its release, with its message."""
    return ": ".join(filter(None, (fault or "it doesn't state its release", message_in(output))))


def message_in(output: str) -> str:
    """Return what is wrong in a compiler's output: its first error, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = (line for line in lines if _ERROR.search(line))
    return next(errors, (lines or [""])[-1])[:_SHOWN]


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
        try:
            with open_file(program) as stream:
                start = stream.read(_LARGEST_SCRIPT)
        except OSError:  # it may be run and not read
            return False, program
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
    is_debian = nvcc.parent == (root / DEBIAN / "bin").resolve()
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
    if kind == "conda":
        includes, libraries = includes[::-1], libraries[1:]
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
