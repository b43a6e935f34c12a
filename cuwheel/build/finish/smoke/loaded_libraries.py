"""The suppliers and requesters of each CUDA, framework and driver library of a process."""

from __future__ import annotations

import csv
import importlib.metadata
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import rich.markup
import rich.padding
import rich.table
from packaging.utils import canonicalize_name

from cuwheel.base.formats.binaries.elf import ElfFormatError, is_elf, read_elf
from cuwheel.base.formats.binaries.elf_image import ElfImage
from cuwheel.base.system.console import Console
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import open_file, open_regular
from cuwheel.check.cuda.suppliers import (
    component_of,
    cuda_major_of,
    is_cuda_library,
    is_from_driver,
)

# ld.so(8), LD_DEBUG=files: written once for each library, at its first request.
_REQUEST = re.compile(
    r"file=(?P<name>.+) \[\d+\];  (?:needed|dynamically loaded) by (?P<requester>.+) \[\d+\]"
)
_NVIDIA = "nvidia"  # top folder of what NVIDIA's wheels install
_DRIVER = "NVIDIA's driver"
_STUB = "a stub in place of NVIDIA's driver"


@dataclass(frozen=True, kw_only=True)
class LoadedLibrary:
    """A library that got loaded.

    Attributes:
        soname: its file's name where it has none.
        location: the file relative to site-packages; absolute outside.
        supplier: name and version of the distribution that owns the file, or what else it is;
            empty where it has no owner.
        requester: the first file that needed it, relative to site-packages, or `Python`; empty if
            unknown.
    """

    soname: str
    path: Path
    location: str
    is_foreign: bool
    supplier: str
    requester: str


def owners(site: Path) -> dict[str, str]:
    """Return the owner (name and version) of each shared library below site-packages, by path."""
    names = {}
    for item in importlib.metadata.distributions(path=[str(site)]):
        name = f"{item.metadata['Name']} {item.version}"
        # A framework's has ten thousand lines; few are about libraries.
        lines = (item.read_text("RECORD") or "").splitlines()
        paths = (row[0] for row in csv.reader(line for line in lines if ".so" in line))
        names.update({path: name for path in paths if ".so" in path.rpartition("/")[2]})
    return names


def find_loaded_libraries(
    files: Iterable[Path], site: Path, owned: Mapping[str, str], debug: str, stub: Path | None
) -> tuple[LoadedLibrary, ...]:
    """Return those of the mapped files that CUDA, a framework or the driver brings.

    Args:
        owned: from `owners`.
        debug: the loader's output for this process with `LD_DEBUG=files`.
    """
    requesters: dict[str, str] = {}
    for line in debug.splitlines():
        if match := _REQUEST.search(line):
            requester = _name_requester(Path(match["requester"]), site)
            requesters.setdefault(Path(match["name"]).name, requester)
    return tuple(_loads(files, site, owned, requesters, stub))


def cuda_releases(loads: Iterable[LoadedLibrary]) -> dict[str, tuple[LoadedLibrary, ...]]:
    """Return the libraries whose soname has CUDA's major release, by that release."""
    by_release: dict[str, tuple[LoadedLibrary, ...]] = {}
    for load in loads:
        if release := cuda_major_of(load.soname):
            by_release[release] = (*by_release.get(release, ()), load)
    return dict(sorted(by_release.items()))


def merge(processes: Iterable[Iterable[LoadedLibrary]]) -> tuple[LoadedLibrary, ...]:
    """Return the loads of several processes by soname, each file once, from the first process."""
    by_path: dict[Path, LoadedLibrary] = {}
    for load in (load for loads in processes for load in loads):
        by_path.setdefault(load.path, load)
    return tuple(sorted(by_path.values(), key=lambda load: load.soname))


def print_loaded_libraries(loaded: Iterable[tuple[str, str, str, str]], console: Console) -> None:
    """Print how many libraries each supplier brought; in detail where the console is verbose."""
    loaded = tuple(loaded)
    if not console.is_verbose:
        console.note(f"{plural(len(loaded), 'library')} loaded: {_count_suppliers(loaded)}")
        return
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0))
    for title in ("library", "file", "from", "loaded by"):
        table.add_column(title, overflow="fold")
    for soname, location, supplier, requester in loaded:
        # Only the name, so that the table fits a terminal.
        cells = (soname, location, supplier or "nobody", Path(requester).name or "unknown")
        table.add_row(*map(rich.markup.escape, cells))
    console.terminal.print(rich.padding.Padding(table, (0, 0, 0, 2)))


def _count_suppliers(loaded: Iterable[tuple[str, str, str, str]]) -> str:
    """Return `13 from NVIDIA's wheels, 11 from torch 2.11.0`, and files without a supplier."""
    suppliers = Counter(
        "NVIDIA's wheels" if supplier.startswith("nvidia-") else supplier
        for _, _, supplier, _ in loaded
        if supplier
    )
    counts = [f"{count} from {supplier}" for supplier, count in suppliers.most_common()]
    counts += [
        f"{location} without a supplier" for _, location, supplier, _ in loaded if not supplier
    ]
    return ", ".join(counts)


def own_libraries(site: Path, owned: Mapping[str, str], project: str) -> tuple[str, ...]:
    """Return the shared libraries that one project has brought, below site-packages."""
    own = (
        name
        for name, owner in owned.items()
        if canonicalize_name(owner.partition(" ")[0]) == project and _is_loadable(site / name)
    )
    return tuple(sorted(own))


def _soname(path: Path) -> str:
    """Return a library's soname; its file name where it has none, or can't be read."""
    try:
        with open_regular(path) as stream:
            return ElfImage(stream).soname or path.name
    except (OSError, ElfFormatError):
        return path.name


def _is_loadable(path: Path) -> bool:
    try:
        with open_file(path) as stream:
            if not is_elf(stream):
                return False
            elf = read_elf(stream)
    except (OSError, ElfFormatError):
        return False
    return elf.is_dynamic and elf.is_host_code


def _loads(
    files: Iterable[Path],
    site: Path,
    owned: Mapping[str, str],
    requesters: Mapping[str, str],
    stub: Path | None,
) -> Iterator[LoadedLibrary]:
    for path in files:
        is_foreign = not path.is_relative_to(site)
        location = str(path if is_foreign else path.relative_to(site))
        is_nvidias = not is_foreign and path.relative_to(site).parts[0] == _NVIDIA
        # A link's name doesn't show, only its target's; outside, any file may be CUDA's.
        if not (is_foreign or is_nvidias or _is_watched(path.name)):
            continue
        soname = _soname(path)
        supplier = _DRIVER if is_from_driver(soname) else ""
        if is_nvidias or _is_watched(path.name) or _is_watched(soname):
            yield LoadedLibrary(
                soname=soname,
                path=path,
                location=location,
                is_foreign=is_foreign,
                supplier=_STUB if path == stub else owned.get(location) or supplier,
                requester=requesters.get(soname) or requesters.get(path.name, ""),
            )


def _is_watched(name: str) -> bool:
    return is_cuda_library(name) or component_of(name) is not None or is_from_driver(name)


def _name_requester(requester: Path, site: Path) -> str:
    """Return `Python` for the interpreter, its own library and its `ctypes`."""
    real = requester.resolve()
    if real.is_relative_to(site):
        return str(real.relative_to(site))
    return "Python" if "python" in requester.name else str(requester)
