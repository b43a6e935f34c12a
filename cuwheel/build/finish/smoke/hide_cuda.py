"""The machine's own CUDA, which a sandbox covers.

A library that users don't have must not make a wheel work here. A folder that is a toolkit's as a
whole is covered by an empty one. In folders that CUDA shares with others
(`/usr/lib/x86_64-linux-gnu`), each CUDA library is covered by a file that the loader passes over.
The driver's libraries stay.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cuwheel.base.system.process import run, which
from cuwheel.check.cuda.suppliers import component_of, is_cuda_library

# Where toolkits are by convention: NVIDIA's installers, Arch Linux.
_TOOLKITS = ("usr/local/cuda*", "opt/cuda*")
# ld.so(8): searched where neither an rpath nor the cache has it. The second row is Debian's.
_DEFAULT_FOLDERS = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64"),
    *("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"),
    *("/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"),
)
_LIBRARY_FOLDERS = ("lib", "lib64", "targets/*/lib")  # of a prefix that CUDA shares with others
_CACHED = re.compile(r"\t\S+ \(.*\) => (/.*)")

# An ELF header for no machine (EM_NONE; 64 bits, the byte order of the machines that CUDA runs on).
# The loader takes such a file for a library of another machine and searches on; after the last
# place it reports "cannot open shared object file". glibc, elf/dl-load.c, open_verify.
_DECOY = struct.pack("<4sBBBB8xHHI40x", b"\x7fELF", 2, 1, 1, 0, 3, 0, 1)


def find_cuda(
    environ: Mapping[str, str], python: Path, *, keep: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Return the folders and files of the machine's CUDA without the driver, links followed.

    Args:
        environ: `CUDA_HOME`, `CUDA_PATH` and `CONDA_PREFIX` name folders to search.
        python: the interpreter that will run: a conda Python searches its own `lib` first.
    """
    named = [Path(environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    toolkits = [path for pattern in _TOOLKITS for path in Path("/").glob(pattern)]
    # `CUDA_HOME` may be `/usr` or a conda prefix, which isn't CUDA's alone.
    toolkits += [
        path for path in named if (path / "nvvm").is_dir() and not (path / "conda-meta").is_dir()
    ]
    folders = {place for home in toolkits for place in _parts(home.resolve(), keep)}
    prefixes = [*named, python.resolve().parent.parent]
    if conda := environ.get("CONDA_PREFIX"):
        prefixes.append(Path(conda))
    files = {
        file.resolve()
        for folder in {path.resolve() for path in _searched_folders(prefixes)}
        for file in folder.glob("lib*.so*")
        if _is_of_cuda(file.name)
    }
    inside = {file for file in files if any(file.is_relative_to(place) for place in folders)}
    return tuple(sorted(folders | {file for file in files - inside if file.is_file()}))


def write_decoy(path: Path) -> Path:
    """Write the file that takes the place of single files that are hidden."""
    path.write_bytes(_DECOY)
    return path


def supplier_among(places: Iterable[Path], soname: str) -> Path | None:
    """Return the file in one of the places that would have supplied a library, or None."""
    for place in places:
        if place.is_dir():
            if path := next(place.rglob(soname), None):
                return path
        elif place.name.startswith(soname):
            return place
    return None


def _is_of_cuda(name: str) -> bool:
    is_of_cuda = is_cuda_library(name) or component_of(name) is not None
    return is_of_cuda and not name.startswith("libcuda.so")


def _parts(folder: Path, keep: tuple[Path, ...]) -> Iterator[Path]:
    """Yield a toolkit's folder; in parts where it holds a driver or what has to be kept.

    NVIDIA's images have a driver for older kernels in `compat`. `stubs` has none: a driver's
    library is of a release, so its name ends in a number.
    """
    driver = (path.parent for path in folder.rglob("libcuda.so.*"))
    yield from _uncovered(folder, (*(path.resolve() for path in keep), *driver))


def _uncovered(folder: Path, kept: tuple[Path, ...]) -> Iterator[Path]:
    if not any(path.is_relative_to(folder) for path in kept):
        yield folder
    elif folder not in kept:
        for child in folder.iterdir():
            if child.is_dir() and not child.is_symlink():
                yield from _uncovered(child, kept)
            elif ".so" in child.name and child.is_file():
                yield child.resolve()


def _searched_folders(prefixes: Iterable[Path]) -> Iterator[Path]:
    """Yield the loader's folders: its defaults, those in its cache, and prefixes of programs.

    Variants of a library for newer processors are in `glibc-hwcaps` below each.
    """
    folders = {Path(name) for name in _DEFAULT_FOLDERS}
    # A system without ldconfig has no cache either.
    if program := which("ldconfig", "/sbin:/usr/sbin:/bin:/usr/bin"):
        lines = run([program, "-p"], env={"LC_ALL": "C"}, check=False).output.splitlines()
        matches = map(_CACHED.fullmatch, lines)
        folders |= {Path(match[1]).parent for match in matches if match}
    for prefix in prefixes:
        folders |= {path for name in _LIBRARY_FOLDERS for path in prefix.glob(name)}
    for folder in folders:
        yield folder
        yield from folder.glob("glibc-hwcaps/*")
