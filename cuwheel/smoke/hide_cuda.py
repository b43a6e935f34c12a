"""The machine's own CUDA: where the loader would find it, and how a program runs without it.

What users don't have must not make a wheel work here. A folder that is a toolkit's as a whole is
covered by an empty one. In folders that CUDA shares with others (`/usr/lib/x86_64-linux-gnu`), each
CUDA library is covered by a file that the loader passes over. The driver's libraries stay.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cuda.suppliers import component_of, is_cuda_library
from cuwheel.errors import CommandFailedError
from cuwheel.standalone import script
from cuwheel.system.process import run, which

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_HIDE = script("namespaces/hide.py")

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
# The loader takes such a file for a library of another machine: it searches on, and where that was
# the last place says "cannot open shared object file". glibc, elf/dl-load.c, open_verify.
_DECOY = struct.pack("<4sBBBB8xHHI40x", b"\x7fELF", 2, 1, 1, 0, 3, 0, 1)


def find_cuda(
    environ: Mapping[str, str], python: Path, *, keep: Iterable[Path]
) -> tuple[Path, ...]:
    """Folders and files, links followed, that together are the machine's CUDA without the driver.

    Args:
        environ: `CUDA_HOME`, `CUDA_PATH` and `CONDA_PREFIX` name folders to search.
        python: the interpreter that will run: a conda Python searches its own `lib` first.
        keep: folders that have to stay in sight, wherever they are.
    """
    named = [Path(environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    toolkits = [path for pattern in _TOOLKITS for path in Path("/").glob(pattern)]
    toolkits += [path for path in named if _is_toolkit(path)]
    kept = tuple(path.resolve() for path in keep)
    folders = {place for home in toolkits for place in _without(home.resolve(), kept)}
    prefixes = [*named, python.resolve().parent.parent]
    if conda := environ.get("CONDA_PREFIX"):
        prefixes.append(Path(conda))
    files = {
        file.resolve()
        for folder in {path.resolve() for path in _searched_folders(prefixes)}
        for file in _libraries(folder)
    }
    inside = {file for file in files if any(file.is_relative_to(place) for place in folders)}
    return tuple(sorted(folders | {file for file in files - inside if file.is_file()}))


def write_decoy(path: Path) -> Path:
    """Write the file that takes the place of single files that are hidden."""
    path.write_bytes(_DECOY)
    return path


def hiding_prefix(places: tuple[Path, ...], decoy: Path) -> tuple[str, ...]:
    """The command prefix that runs a program without these places; its path has to be absolute.

    Args:
        places: from `find_cuda`.
        decoy: from `write_decoy`.

    Returns:
        Nothing where the system refuses a mount namespace, as many containers do.
    """
    prefix = (sys.executable, "-I", str(_HIDE), str(decoy), *map(str, places), "--")
    try:
        run([*prefix, "/bin/sh", "-c", ":"], env={"PATH": os.defpath})
    except CommandFailedError:
        return ()
    return prefix


def supplier_among(places: Iterable[Path], soname: str) -> Path | None:
    """The file in one of the places that would have supplied a library; None: there is none."""
    for place in places:
        if place.is_dir():
            if found := next(place.rglob(soname), None):
                return found
        elif place.name.startswith(soname):
            return place
    return None


def _is_toolkit(folder: Path) -> bool:
    """Whether a folder is CUDA's as a whole; `CUDA_HOME` may well be `/usr` or a conda prefix."""
    return (folder / "nvvm").is_dir() and not (folder / "conda-meta").is_dir()


def _without(folder: Path, kept: tuple[Path, ...]) -> Iterator[Path]:
    """A toolkit's folder as a whole; in parts where it holds a driver or what has to be kept.

    NVIDIA's images have a driver for older kernels in `compat`. `stubs` has none: a driver's
    library is of a release, so its name ends in a number.
    """
    driver = tuple(path.parent for path in folder.rglob("libcuda.so.*"))
    yield from _uncovered(folder, (*kept, *driver))


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
    """Where the loader looks: its defaults, what its cache names, and prefixes that programs name.

    Variants of a library for newer processors are in `glibc-hwcaps` below each.
    """
    folders = {Path(name) for name in _DEFAULT_FOLDERS}
    folders |= {path.parent for path in _cached_libraries()}
    for prefix in prefixes:
        folders |= {path for name in _LIBRARY_FOLDERS for path in prefix.glob(name)}
    for folder in folders:
        yield folder
        yield from folder.glob("glibc-hwcaps/*")


def _cached_libraries() -> list[Path]:
    """What /etc/ld.so.cache names; nothing where the system has no ldconfig, so no cache either."""
    program = which("ldconfig", "/sbin:/usr/sbin:/bin:/usr/bin")
    if program is None:
        return []
    said = run([program, "-p"], env={"LC_ALL": "C"}, check=False).output
    return [Path(found[1]) for line in said.splitlines() if (found := _CACHED.fullmatch(line))]


def _libraries(folder: Path) -> Iterator[Path]:
    for path in folder.glob("lib*.so*"):
        name = path.name
        if (is_cuda_library(name) or component_of(name)) and not name.startswith("libcuda.so"):
            yield path
