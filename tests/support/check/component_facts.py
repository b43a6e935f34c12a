"""What the table of components says of a wheel of NVIDIA's, against the files of that wheel."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.base.formats.binaries.elf import Elf, read_elf
from cuwheel.check.cuda.components import KNOWN_COMPONENTS, Component, fits
from cuwheel.check.cuda.suppliers import components_of
from cuwheel.check.linkage.search_path import resolve_entry


def rows_of(distribution: str, version: str = "") -> list[Component]:
    """The rows of a distribution, those of this release of it only."""
    return [
        found
        for found in KNOWN_COMPONENTS
        if found.distribution == distribution
        and (not version or version in SpecifierSet(found.releases))
    ]


def faults_of(site: Path, distribution: str, version: str) -> list[str]:
    """Where the libraries of an unpacked wheel differ from the rows of its distribution."""
    faults = []
    for row in rows_of(distribution, version):
        files = {pattern: sorted((site / row.site_folder).glob(pattern)) for pattern in row.sonames}
        faults += [
            f"{row.site_folder} holds no {name}" for name, found in files.items() if not found
        ]
        told = {name for name, releases in row.lost if version in SpecifierSet(releases)}
        lost: set[str] = set()
        for file in (path for found in files.values() for path in found):
            faults += _faults_of_needs(row, file)
            lost |= set(_lost_by(row, file, site))
        if lost != told:
            faults.append(f"{row.name} {version} loses {sorted(lost)}, not {sorted(told)}")
    return faults


def unnamed_in(site: Path, distribution: str, version: str = "") -> list[str]:
    """Names that rows say are opened, and that stand in none of the files."""
    return [
        f"{row.name}: {name}"
        for row in rows_of(distribution, version)
        for name in (*row.opens, *row.may_open)
        if not any(
            _names(path, name)
            for pattern in row.sonames
            for path in (site / row.site_folder).glob(pattern)
        )
    ]


def unrequired_by(requires: Iterable[str], distribution: str, version: str = "") -> set[str]:
    """What rows say a wheel brings, less what its `Requires-Dist` lines say."""
    asked = {canonicalize_name(Requirement(line).name) for line in requires}
    return {name for row in rows_of(distribution, version) for name in row.brings} - asked


def _faults_of_needs(row: Component, file: Path) -> Iterator[str]:
    elf = _read(file)
    if not any(fnmatchcase(elf.soname, pattern) for pattern in row.sonames):
        yield f"{row.name}: {file.name} says it is {elf.soname}"
    known = (*row.needs, *row.sonames)
    for soname in elf.needed:
        is_known = any(fnmatchcase(soname, pattern) for pattern in known)
        if not is_known and _supplier_of(soname, row.cuda) is not None:
            yield f"{row.name}: {file.name} needs {soname}, which the row doesn't say"


def _lost_by(row: Component, file: Path, site: Path) -> Iterator[str]:
    """What a library asks for in any way, and doesn't reach."""
    elf, place = _read(file), PurePosixPath(file.relative_to(site).as_posix())
    ways = {str(resolve_entry(place, entry)) for entry in elf.search_path}
    for name in (*row.needs, *row.opens, *row.may_open):
        if name in elf.needed or (name not in row.needs and _names(file, name)):
            supplier = _supplier_of(name, row.cuda)
            if supplier is not None and supplier.site_folder not in ways:
                yield name


def _supplier_of(soname: str, cuda: int | None) -> Component | None:
    return next((found for found in components_of(soname) if fits(found, cuda)), None)


def _names(file: Path, name: str) -> bool:
    """Whether a soname, or what stands before the first `*` of a pattern, is text in a file."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(name.partition("*")[0].encode()) >= 0


def _read(file: Path) -> Elf:
    with file.open("rb") as stream:
        return read_elf(stream)
