"""Which file supplied each CUDA, framework and driver library of a process, and who asked."""

from __future__ import annotations

import csv
import importlib.metadata
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich.markup
import rich.padding
import rich.table
from packaging.utils import canonicalize_name

from cuwheel.binaries.elf import ElfFormatError, is_elf, read_elf, read_soname
from cuwheel.cuda.suppliers import (
    component_of,
    cuda_major_of,
    is_cuda_library,
    is_from_driver,
)
from cuwheel.system.quantities import plural
from cuwheel.system.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.system.console import Console


# ld.so(8), LD_DEBUG=files: written once for each library, at the first time that it is asked for.
_ASKED = re.compile(
    r"file=(?P<name>.+) \[\d+\];  (?:needed|dynamically loaded) by (?P<requester>.+) \[\d+\]"
)
_NVIDIA = "nvidia"  # top folder of what NVIDIA's wheels install
_DRIVER = "NVIDIA's driver"
_STUB = "a stub in place of NVIDIA's driver"


@dataclass(frozen=True, kw_only=True)
class LoadedLibrary:
    """A library that got loaded.

    Attributes:
        soname: what it calls itself; its file's name where it doesn't.
        path: the file, links followed.
        location: the file relative to site-packages; absolute outside.
        is_foreign: it is outside site-packages.
        supplier: name and version of the distribution that owns the file, or what else it is;
            empty where nobody claims it.
        requester: what the loader was first asked by, relative to site-packages, or `Python`; empty
            where it didn't say.
    """

    soname: str
    path: Path
    location: str
    is_foreign: bool
    supplier: str
    requester: str


def owners(site: Path) -> dict[str, str]:
    """Who owns each shared library below site-packages: path, then name and version.

    Args:
        site: the folder, links followed.
    """
    found = {}
    for item in importlib.metadata.distributions(path=[str(site)]):
        name = f"{item.metadata['Name']} {item.version}"
        # A framework's has ten thousand lines; few are about libraries.
        lines = (item.read_text("RECORD") or "").splitlines()
        paths = (row[0] for row in csv.reader(line for line in lines if ".so" in line))
        found.update({path: name for path in paths if ".so" in path.rpartition("/")[2]})
    return found


def find_loaded_libraries(
    files: Iterable[Path], site: Path, owned: Mapping[str, str], said: str, stub: Path | None
) -> tuple[LoadedLibrary, ...]:
    """Those of the mapped files that CUDA, a framework or the driver brings.

    Args:
        files: all libraries of a process, links followed.
        site: its site-packages, links followed.
        owned: from `owners`.
        said: what the loader wrote of this process with `LD_DEBUG=files`.
        stub: what stood in for the driver.
    """
    requesters = _requesters(said, site)
    return tuple(_loads(files, site, owned, requesters, stub))


def cuda_releases(loads: Iterable[LoadedLibrary]) -> dict[str, tuple[LoadedLibrary, ...]]:
    """The libraries that tell the major release of CUDA that they are of, by that release."""
    found: dict[str, tuple[LoadedLibrary, ...]] = {}
    for load in loads:
        if release := cuda_major_of(load.soname):
            found[release] = (*found.get(release, ()), load)
    return dict(sorted(found.items()))


def merge(processes: Iterable[Iterable[LoadedLibrary]]) -> tuple[LoadedLibrary, ...]:
    """The loads of several processes by soname, each file once, as the first that had it says."""
    found: dict[Path, LoadedLibrary] = {}
    for load in (load for loads in processes for load in loads):
        found.setdefault(load.path, load)
    return tuple(sorted(found.values(), key=lambda load: load.soname))


def print_loaded_libraries(loaded: Iterable[tuple[str, str, str, str]], console: Console) -> None:
    """Print who brought how many libraries; each with its file and who asked, where it is verbose.

    Args:
        loaded: as in the artefact `Smoke`.
        console: where to.
    """
    loaded = tuple(loaded)
    if not console.is_verbose:
        console.note(f"{plural(len(loaded), 'library')} loaded: {_count_suppliers(loaded)}")
        return
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0))
    for title in ("library", "file", "from", "loaded by"):
        table.add_column(title, overflow="fold")
    for soname, location, supplier, requester in loaded:
        # The name is enough, and the table fits a terminal.
        cells = (soname, location, supplier or "nobody", Path(requester).name or "unknown")
        table.add_row(*map(rich.markup.escape, cells))
    console.terminal.print(rich.padding.Padding(table, (0, 0, 0, 2)))


def _count_suppliers(loaded: Iterable[tuple[str, str, str, str]]) -> str:
    """`13 from NVIDIA's wheels, 11 from torch 2.11.0`; what nobody brought is named."""
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
    """The shared libraries that one project has brought, below site-packages.

    Args:
        site: the folder.
        owned: from `owners`.
        project: its normalised name.
    """
    own = (
        name
        for name, owner in owned.items()
        if canonicalize_name(owner.partition(" ")[0]) == project and _is_loadable(site / name)
    )
    return tuple(sorted(own))


def _soname(path: Path) -> str:
    """What a library calls itself; its file name where it doesn't, or can't be read."""
    try:
        with open_regular(path) as stream:
            return read_soname(stream) or path.name
    except (OSError, ElfFormatError):
        return path.name


def _is_loadable(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
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
        if is_nvidias or _is_watched(path.name) or _is_watched(soname):
            yield LoadedLibrary(
                soname=soname,
                path=path,
                location=location,
                is_foreign=is_foreign,
                supplier=_supplier(path, soname, owned.get(location, ""), stub),
                requester=requesters.get(soname) or requesters.get(path.name, ""),
            )


def _is_watched(name: str) -> bool:
    return is_cuda_library(name) or component_of(name) is not None or is_from_driver(name)


def _supplier(path: Path, soname: str, owner: str, stub: Path | None) -> str:
    if path == stub:
        return _STUB
    return owner or (_DRIVER if is_from_driver(soname) else "")


def _requesters(said: str, site: Path) -> dict[str, str]:
    """Who asked first, by the name of what was asked for."""
    found: dict[str, str] = {}
    for line in said.splitlines():
        if match := _ASKED.search(line):
            found.setdefault(
                Path(match["name"]).name, _name_requester(Path(match["requester"]), site)
            )
    return found


def _name_requester(requester: Path, site: Path) -> str:
    """`Python` for the interpreter, its own library and its `ctypes`."""
    real = requester.resolve()
    if real.is_relative_to(site):
        return str(real.relative_to(site))
    return "Python" if "python" in requester.name else str(requester)
