"""Which folders the libraries of a wheel lead the loader to, and what hangs on each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.cuda.suppliers import resolve_entry
from cuwheel.wheel.metadata import installed_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.audit.case import Case
    from cuwheel.audit.scan import ScannedLibrary


@dataclass(frozen=True, kw_only=True)
class LoaderGraph:
    """The libraries of a wheel, as the loader goes from one to the next (ld.so(8)).

    Attributes:
        case: the wheel.
    """

    case: Case

    def finds(self, library: ScannedLibrary, soname: str, folders: Iterable[object]) -> bool:
        """Whether a library finds another in one of these folders, or whoever loads it does.

        The loader takes what a file itself needs before what those need in turn, and hands its
        `DT_RPATH` (not `DT_RUNPATH`) down to all that it loads.

        Args:
            library: of the wheel.
            soname: what it needs.
            folders: below site-packages.
        """
        searched = frozenset(map(str, folders))
        inherits = library.elf is not None and not library.elf.runpath
        return _leads(library, searched) or self._is_served(library, soname, searched, inherits, ())

    def is_import_lost(self, library: ScannedLibrary, soname: str) -> bool:
        """Whether importing a module of the wheel always fails as a library doesn't find another.

        It doesn't where that one may have been loaded before: by Python code, as a module itself,
        by a library that finds it, or by one that opens others by name.

        Args:
            library: of the wheel, which doesn't find the other.
            soname: of the other, which is in the wheel.
        """
        modules = [one for one, elf in self.case.host_libraries if elf.python_modules]
        is_imported = any(library in self.brought_by(module) for module in modules)
        owners = self._owners.get(soname, ())
        # The runtime that is linked in opens the driver.
        opens = any(elf.uses_dlopen and not one.cudart for one, elf in self.case.host_libraries)
        may_be_there = (
            bool(self.case.scan.loaders)
            or opens
            or any(owner in modules for owner in owners)
            or any(
                soname in elf.needed and self.finds(other, soname, self.case.files.get(soname, ()))
                for other, elf in self.case.host_libraries
            )
        )
        return is_imported and not may_be_there

    def is_vital(self, sonames: Iterable[str]) -> bool:
        """Whether nothing in the wheel can be loaded where these libraries are missing."""
        missing = frozenset(sonames)
        return not any(missing.isdisjoint(closure) for closure in self._closures)

    def _is_served(
        self,
        library: ScannedLibrary,
        soname: str,
        searched: frozenset[str],
        inherits: bool,  # noqa: FBT001 - private
        visited: tuple[ScannedLibrary, ...],
    ) -> bool:
        """Whether all that need a library bring the other along, or hand a way to it down."""
        parents = [one for one in self._parents(library) if one not in visited]
        return bool(parents) and all(
            (_leads(parent, searched) and _passes_on(parent, soname, inherits))
            or self._is_served(parent, soname, searched, inherits, (*visited, library))
            for parent in parents
        )

    def _parents(self, library: ScannedLibrary) -> list[ScannedLibrary]:
        names = _names(library)
        return [
            parent
            for parent, elf in self.case.host_libraries
            if parent is not library and not names.isdisjoint(elf.needed)
        ]

    @cached_property
    def roots(self) -> tuple[ScannedLibrary, ...]:
        """Libraries that no other one of the wheel needs: those that Python loads."""
        return tuple(
            library
            for library, _ in self.case.host_libraries
            if ".so" in PurePosixPath(library.name).name and not self._parents(library)
        )

    def brought_by(self, library: ScannedLibrary) -> tuple[ScannedLibrary, ...]:
        """A library, and those of the wheel that the loader loads with it."""
        found, queue = {library.name: library}, [library]
        for one in queue:
            owners = [
                own for soname in sorted(_needed(one)) for own in self._owners.get(soname, ())
            ]
            new = {own.name: own for own in owners if own.name not in found}
            found |= new
            queue += new.values()
        return tuple(found.values())

    @cached_property
    def _owners(self) -> dict[str, tuple[ScannedLibrary, ...]]:
        """The libraries of each file name and soname."""
        found: dict[str, tuple[ScannedLibrary, ...]] = {}
        for library, _ in self.case.host_libraries:
            for name in _names(library):
                found[name] = (*found.get(name, ()), library)
        return found

    @cached_property
    def _closures(self) -> tuple[frozenset[str], ...]:
        """Every soname that each of the roots needs, through others of the wheel too."""
        return tuple(
            frozenset[str]().union(*map(_needed, self.brought_by(library)))
            for library in self.roots
        )


def _needed(library: ScannedLibrary) -> frozenset[str]:
    return frozenset(library.elf.needed) if library.elf else frozenset()


def _names(library: ScannedLibrary) -> frozenset[str]:
    """Its file name and its soname."""
    soname = library.elf.soname if library.elf else ""
    return frozenset({PurePosixPath(library.name).name, soname} - {""})


def _passes_on(parent: ScannedLibrary, soname: str, inherits: bool) -> bool:  # noqa: FBT001 - private
    """Whether a library's rpath or its own need makes another available to what it loads."""
    hands_down = parent.elf is not None and not parent.elf.runpath
    return soname in _needed(parent) or (inherits and hands_down)


def _leads(library: ScannedLibrary, searched: frozenset[str]) -> bool:
    path = installed_path(library.name)
    if path is None or library.elf is None:
        return False
    ways = {str(resolve_entry(path, entry)) for entry in library.elf.search_path}
    return not ways.isdisjoint(searched)
