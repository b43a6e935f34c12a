"""Symbols that a library of CUDA's wheels needs, and that the library which is loaded lacks."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.formats.binaries.elf import Elf, ElfFormatError
from cuwheel.base.formats.binaries.elf_symbols import Symbols
from cuwheel.base.system.regular_files import open_file
from cuwheel.check.cuda.components import KNOWN_COMPONENTS
from cuwheel.check.cuda.suppliers import is_cuda_library, is_from_driver, stem_of
from cuwheel.check.diagnose.facts.builds import elf_at
from cuwheel.check.diagnose.facts.environment import Distribution
from cuwheel.check.linkage.installed_loader import SYSTEM, FoundLibrary, InstalledLoader
from cuwheel.check.linkage.loader_graph import LoaderGraph

_START = {"cudart": "cuda"}  # of its functions' names, where that isn't the library's


@dataclass(frozen=True, kw_only=True)
class LackingLibrary:
    """A library that lacks what another one needs of it.

    Attributes:
        user: the library that can't be loaded.
        symbol: a function, or a symbol version.
    """

    user: Path
    found: FoundLibrary
    symbol: str


def find_lacking(wheel: Distribution, loader: InstalledLoader) -> Iterator[LackingLibrary]:
    """Yield the libraries that the loader takes for a wheel's and that lack what these need.

    Which one the system has isn't decided by files: packages load theirs by path before it.
    """
    elves = {str(path): elf for path in wheel.libraries if (elf := elf_at(path))}
    graph = LoaderGraph(elves=elves)
    imports = {framework for _, framework in loader.preloaded.values()}
    for library, elf in elves.items():
        sonames = [name for name in elf.needed if is_cuda_library(name)]
        pairs = ((name, loader.find(library, name, graph, imports)) for name in sonames)
        others = {
            name: found
            for name, found in pairs
            if found and found.path and not is_from_driver(name) and found.supplier != SYSTEM
        }
        for soname, symbol in _lacking(Path(library), elf, others):
            yield LackingLibrary(user=Path(library), found=others[soname], symbol=symbol)


def _lacking(
    library: Path, elf: Elf, others: Mapping[str, FoundLibrary]
) -> Iterator[tuple[str, str]]:
    """Yield a soname with the first symbol, or symbol version, that the found file lacks."""
    try:
        with open_file(library) as stream:
            undefined = sorted(Symbols(stream).undefined()) if others else []
        for soname, found in others.items():
            names = [name for name in undefined if _owner(name) == stem_of(soname)]
            versions = [version for name, version in elf.versions if name == soname]
            if symbol := _first_lacking(found.path, names, versions):
                yield soname, symbol
    except (OSError, ElfFormatError, struct.error):
        return


def _first_lacking(path: Path | None, names: Iterable[str], versions: Iterable[str]) -> str:
    other = elf_at(path) if path else None
    if path is None or other is None:
        return ""
    with open_file(path) as stream:
        missing = sorted(Symbols(stream).lacking(names))
    # The loader accepts a library without any versions.
    absent = [one for one in versions if one not in (other.defined_versions or versions)]
    return next(iter((*missing, *absent)), "")


def _owner(symbol: str) -> str:
    """Return the library, `libcublasLt`, that a function's name begins with; empty: not known."""
    match = _starts().match(symbol.lstrip("_"))
    return f"lib{_stems()[match[0]]}" if match else ""


@functools.cache
def _stems() -> dict[str, str]:
    names = {stem_of(name)[3:] for part in KNOWN_COMPONENTS for name in part.sonames}
    return {_START.get(name, name): name for name in names if is_cuda_library(f"lib{name}.so.1")}


@functools.cache
def _starts() -> re.Pattern[str]:
    return re.compile("|".join(sorted(map(re.escape, _stems()), key=len, reverse=True)))
