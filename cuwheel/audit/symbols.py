"""Who defines the symbols that a wheel's libraries need: itself, PyTorch, the system, or nobody.

Only names that say no library and no version are looked at: what they are bound to is decided
when a library is loaded, and Python loads with `RTLD_NOW`. A name counts as nobody's where
everybody who could define it is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from cuwheel.audit.loader_paths import LoaderGraph
from cuwheel.audit.runtimes import is_runtime, runtime_defines
from cuwheel.audit.tags import minor_of
from cuwheel.binaries.elf_symbols import Exports
from cuwheel.binaries.symbol_names import has_old_string
from cuwheel.cuda.frameworks import extras_of, has_common_release
from cuwheel.cuda.suppliers import components_of, is_cuda_library, is_from_driver
from cuwheel.cuda.torch_exports import (
    MACHINES_OF_TABLE,
    NEW_STRING,
    TorchExports,
    is_judged,
    is_kept,
    torch_exports,
)
from cuwheel.wheel.metadata import project_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.audit.case import Case
    from cuwheel.audit.scan import ScannedLibrary

_PYTHON = re.compile(r"_?Py[A-Z_]")
_NUMBER = re.compile(r"\d+")
_CUDA = re.compile(r"(__)?(cu|nv|npp|ncc)|_ZN?K?\d+nv")
_STRING_ABI = re.compile(r"(?i)cxx11[-_.]?abi[-_.]?(true|false|)")
_TENSORRT = re.compile(r"libnv(infer|onnxparser)")  # whose functions have no prefix


@dataclass(frozen=True, kw_only=True)
class TorchFit:
    """Which releases of PyTorch a library can be loaded with.

    Attributes:
        lacking: a name that the newest of `wrong` doesn't export.
        count: of all names that one of these doesn't.
        fitting: releases with all names, whether they are allowed or not.
        wrong: releases that the wheel allows and that lack some.
        newest: the newest release that was allowed.
        is_newer_allowed: whether releases are allowed that the table doesn't have.
        is_other_string_abi: whether it was compiled with the other one of libstdc++'s two strings
            than the allowed releases of the index: builds of these from elsewhere may have it.
    """

    lacking: str
    count: int
    fitting: tuple[str, ...]
    wrong: tuple[str, ...]
    newest: str
    is_newer_allowed: bool
    is_other_string_abi: bool


@dataclass(frozen=True, kw_only=True)
class SymbolNeeds:
    """What the libraries of a wheel need of others, symbol by symbol.

    Attributes:
        case: the wheel.
    """

    case: Case

    @cached_property
    def graph(self) -> LoaderGraph:
        """Which library loads which."""
        return LoaderGraph(case=self.case)

    @cached_property
    def torch_requirement(self) -> SpecifierSet | None:
        """The releases of PyTorch that the wheel requires; None: it requires none."""
        lines = [Requirement(text) for text in self.case.requires if project_of(text) == "torch"]
        counting = [one.specifier for one in lines if "" in extras_of(one)]
        found = SpecifierSet()
        for one in counting:
            found &= one
        return found if counting else None

    @property
    def is_torch_judged(self) -> bool:
        """Whether its libraries are PyTorch extensions for machines that the table holds for."""
        is_fitting = any(one.endswith(MACHINES_OF_TABLE) for one in self.case.platforms)
        return is_fitting and self._has_torch and self.case.project != "torch"

    def torch_fit(self, library: ScannedLibrary) -> TorchFit | None:
        """What PyTorch's releases lack of what a library needs; None: nothing that is allowed.

        A wheel may hold one for each release, `libx_torch2.4.so` and `libx_torch2.5.so`: then
        every release that one of these loads with is fitting.
        """
        table = torch_exports()
        required = self.torch_requirement or SpecifierSet()
        allowed = table.allowed_by(required, self._pythons)
        needed = self._releases_with_names(library)
        fitting = set[str]().union(
            *(
                set(table.releases).intersection(*self._releases_with_names(one).values())
                for one, _ in self.case.host_libraries
                if _NUMBER.sub("", one.name) == _NUMBER.sub("", library.name)
            )
        )
        wrong = tuple(one for one in allowed if one not in fitting)
        if not wrong:
            return None
        lacking = [name for name, there in needed.items() if set(wrong) - there]
        newest = [name for name in lacking if wrong[-1] not in needed[name]]
        beyond = SpecifierSet(f">{table.releases[-1]}")
        return TorchFit(
            lacking=min(newest, key=lambda name: (name.startswith("_ZT"), len(name), name)),
            count=len(lacking),
            fitting=tuple(one for one in table.releases if one in fitting),
            wrong=wrong,
            newest=allowed[-1],
            is_newer_allowed=has_common_release(str(beyond), self.torch_requirement or beyond),
            is_other_string_abi=wrong == allowed and self._is_other_string_abi(needed, wrong),
        )

    def uses_torch(self, library: ScannedLibrary) -> bool:
        """Whether a library needs anything of PyTorch by name."""
        return bool(self._torch_names(library))

    def unsupplied(self, library: ScannedLibrary) -> tuple[str, ...]:
        """Names that nobody defines."""
        if library.exports is None or ".so" not in PurePosixPath(library.name).name:
            return ()
        foreign = self._foreign(library)
        kinds = {self._kind(soname) for soname in foreign}
        if "unknown" in kinds:
            return ()
        may_be_c = "system" in kinds
        return tuple(
            name
            for name in library.undefined
            if not self._is_own(name)
            and not (may_be_c and not name.startswith("_Z"))
            and not self._is_of(name, kinds)
        )

    def is_imported(self, library: ScannedLibrary) -> bool:
        """Whether importing a module of the wheel loads a library."""
        return any(library in self.graph.brought_by(one) for one in self._modules)

    @cached_property
    def unknown_suppliers(self) -> tuple[str, ...]:
        """Required projects whose libraries Python code of the wheel may load before its own.

        With `RTLD_GLOBAL` these define symbols for everybody, and no table has theirs.
        """
        known = {one.distribution for one in self.case.declared}
        return tuple(sorted(self.case.required - known)) if self.case.scan.loaders else ()

    @cached_property
    def _modules(self) -> tuple[ScannedLibrary, ...]:
        return tuple(one for one, elf in self.case.host_libraries if elf.python_modules)

    @cached_property
    def _pythons(self) -> tuple[int, ...]:
        """The Pythons that the tags name; none where one of the tags is for several."""
        minors = [minor_of(tag) for tag in self.case.tags]
        known = [minor for minor in minors if minor is not None]
        return tuple(sorted(known)) if len(known) == len(minors) else ()

    @cached_property
    def _has_torch(self) -> bool:
        is_required = any(one.by == "torch" for one in self.case.dependencies)
        return is_required or "torch" in self.case.assumed

    def _torch_names(self, library: ScannedLibrary) -> tuple[str, ...]:
        table: TorchExports = torch_exports()
        return tuple(
            name
            for name in library.undefined
            if (is_judged(name) or table.releases_with(name))
            and not self._is_own(name)
            and not runtime_defines(name)
        )

    @cached_property
    def _own_exports(self) -> Exports:
        """What all of the wheel's libraries define."""
        found = (one.exports for one, _ in self.case.host_libraries if one.exports)
        return Exports.of(value for exports in found for value in exports.hashes)

    def _releases_with_names(self, library: ScannedLibrary) -> dict[str, set[str]]:
        """Of each name of PyTorch's that a library needs the releases that have it."""
        table = torch_exports()
        return {name: set(table.releases_with(name)) for name in self._torch_names(library)}

    def _is_other_string_abi(self, needed: dict[str, set[str]], releases: Iterable[str]) -> bool:
        """Whether none of these releases of the index has strings as the wheel has them.

        Builders write it into versions, `+cu123torch2.4cxx11abiTRUE`; otherwise all names that are
        lacking say so.
        """
        table = torch_exports()
        if stated := _STRING_ABI.search(self.case.scan.file_name):
            is_new = stated[1].lower() != "false"
            return all(table.has_new_strings(one) != is_new for one in releases)
        return all(
            _has_other_string(name, one)
            for one in releases
            for name, there in needed.items()
            if one not in there
        )

    def _is_own(self, name: str) -> bool:
        """Whether a library of the wheel defines it: another may have loaded that one before."""
        return name in self._own_exports

    def _foreign(self, library: ScannedLibrary) -> frozenset[str]:
        """What a library brings along that isn't in the wheel."""
        brought = [one.elf for one in self.graph.brought_by(library) if one.elf]
        needed = frozenset(soname for elf in brought for soname in elf.needed)
        return needed - self.case.own.keys()

    def _kind(self, soname: str) -> str:
        if is_runtime(soname):
            return "runtime"
        if _TENSORRT.match(soname):
            return "system"
        if is_from_driver(soname) or is_cuda_library(soname):
            return "cuda"
        suppliers = components_of(soname)
        if any(one.distribution == "torch" for one in suppliers):
            return "torch"
        if suppliers:
            return "cuda"
        return "system" if soname in self.case.system else "unknown"

    def _is_of(self, name: str, kinds: set[str]) -> bool:
        """Whether one of those who are loaded may define a name."""
        if _PYTHON.match(name) or runtime_defines(name):
            return True
        has_torch = "torch" in kinds or self._has_torch
        if has_torch and (not is_kept(name) or is_judged(name) or _is_in_torch(name)):
            return True
        may_be_cuda = not kinds.isdisjoint({"cuda", "system"}) or bool(self.case.dependencies)
        return may_be_cuda and bool(_CUDA.match(name))


def _has_other_string(name: str, release: str) -> bool:
    """Whether a name says the string that this release of PyTorch doesn't have."""
    table = torch_exports()
    if not table.has_new_strings(release):
        return NEW_STRING in name
    return has_old_string(name) or table.returns_new_string(name)


def _is_in_torch(name: str) -> bool:
    return bool(torch_exports().releases_with(name))
