"""The search of the dynamic loader among the libraries of one package (ld.so(8))."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from cuwheel.base.formats.binaries.elf import Elf
from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.check.linkage.search_path import resolve_entry


@dataclass(frozen=True, kw_only=True)
class LoaderGraph:
    """The libraries of a package, linked as the loader loads them.

    Attributes:
        elves: by member of a wheel, or by absolute path on disk: the libraries' names in all
            methods.
    """

    elves: Mapping[str, Elf]

    def finds(self, library: str, soname: str, folders: Iterable[object]) -> bool:
        """Return True if a library, or all that load it, find another in one of the folders.

        The loader loads a file's own needs before the needs of those, and hands its `DT_RPATH`
        (not `DT_RUNPATH`) down to all that it loads.
        """
        searched = frozenset(map(str, folders))
        inherits = not self.elves[library].runpath
        return self._leads(library, searched) or self._is_served(
            library, soname, searched, inherits, ()
        )

    def folders(self, library: str) -> Iterator[PurePosixPath]:
        """Yield the folders to which a library's own rpath or runpath leads."""
        path = installed_path(library)
        for entry in self.elves[library].search_path if path else ():
            if path and (folder := resolve_entry(path, entry)):
                yield folder

    def is_vital(self, sonames: Iterable[str]) -> bool:
        """Return True if nothing in the wheel can be loaded without these libraries."""
        missing = frozenset(sonames)
        return not any(missing.isdisjoint(self.needs(root)) for root in self.roots)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Libraries that no other one of the wheel needs, which Python loads."""
        return tuple(
            library
            for library in self.elves
            if ".so" in PurePosixPath(library).name and not self._parents(library)
        )

    def loaded_by(self, library: str) -> tuple[str, ...]:
        """Return a library, and those of the wheel that the loader loads with it."""
        loaded = {library: None}
        queue = [library]
        for parent in queue:
            needed = sorted(set(self.elves[parent].needed))
            owners = [owner for soname in needed for owner in self.served_by(parent, soname)]
            new = dict.fromkeys(owner for owner in owners if owner not in loaded)
            loaded |= new
            queue += new
        return tuple(loaded)

    def needs(self, library: str) -> frozenset[str]:
        """Return every soname that a library needs, directly or through others of the wheel."""
        return frozenset[str]().union(
            *(self.elves[name].needed for name in self.loaded_by(library))
        )

    def served_by(self, library: str, soname: str) -> tuple[str, ...]:
        """Return the owners of a soname in a library's own folders; all if none is in one."""
        owners = self.owners(soname)
        if len(owners) == 1:
            return owners
        folders = set(self.folders(library))
        places = {owner: installed_path(owner) for owner in owners}
        found = (owner for owner, path in places.items() if path and path.parent in folders)
        return tuple(found) or owners

    def owners(self, name: str) -> tuple[str, ...]:
        """Return the libraries with a file name or soname."""
        return self._owners.get(name, ())

    @cached_property
    def _owners(self) -> dict[str, tuple[str, ...]]:
        owners: dict[str, tuple[str, ...]] = {}
        for library in self.elves:
            for name in self.names(library):
                owners[name] = (*owners.get(name, ()), library)
        return owners

    def _is_served(
        self,
        library: str,
        soname: str,
        searched: frozenset[str],
        inherits: bool,  # noqa: FBT001 - private
        visited: tuple[str, ...],
    ) -> bool:
        """Return True if all that need a library load the other too, or hand down a path to it."""
        parents = [parent for parent in self._parents(library) if parent not in visited]
        return bool(parents) and all(
            (self._leads(parent, searched) and self._passes_on(parent, soname, inherits=inherits))
            or self._is_served(parent, soname, searched, inherits, (*visited, library))
            for parent in parents
        )

    def _parents(self, library: str) -> list[str]:
        names = self.names(library)
        return [
            parent
            for parent, elf in self.elves.items()
            if parent != library and not names.isdisjoint(elf.needed)
        ]

    def names(self, library: str) -> frozenset[str]:
        """Return the file name and the soname, by which others may need a library."""
        return frozenset({PurePosixPath(library).name, self.elves[library].soname} - {""})

    def _passes_on(self, parent: str, soname: str, *, inherits: bool) -> bool:
        """Return True if a library's rpath or own need makes another available to its needs."""
        elf = self.elves[parent]
        return soname in elf.needed or (inherits and not elf.runpath)

    def _leads(self, library: str, searched: frozenset[str]) -> bool:
        """Return True if an entry of a library's rpath or runpath leads to one of the folders."""
        return not searched.isdisjoint(map(str, self.folders(library)))
