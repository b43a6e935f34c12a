"""The supply of what a wheel's libraries need, transitively through NVIDIA's wheels.

A library finds another in three ways: an rpath entry leads to its folder, it was loaded before (the
loader compares sonames), or the system has it. The first is in the file, the last in the platform
tag; the second follows from which package loads what.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

from packaging.specifiers import SpecifierSet

from cuwheel.base.formats.wheel.metadata import installed_path
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import SEVERITIES, Severity
from cuwheel.check.audit.requirements import SupplierConditions
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.audit.tags import minor_of
from cuwheel.check.cuda.components import Component, component_by_name
from cuwheel.check.cuda.frameworks import has_common_release, preloads
from cuwheel.check.cuda.suppliers import (
    is_cuda_library,
    is_from_driver,
    is_other_accelerator,
    name_before_graft,
)
from cuwheel.check.linkage.search_path import resolve_entry

_PREFIX = PurePosixPath("/")  # `sys.prefix`, and where site-packages is below it
_SITE = PurePosixPath("/lib/python3/site-packages")
_SCRIPT = re.compile(r"\.data/(scripts|data/bin)/")
OWN_CODE = "the wheel's Python code"
"""A loader of libraries, in place of a project's name."""
_TORCH_FOLDER = PurePosixPath(component_by_name("torch").site_folder)
_OF_TORCH = frozenset({"libgomp.so.1"})
# Code that may load other libraries, none, or all of a folder.
_BY_CHOICE = re.compile(
    rb"\b(try|def|if|suppress|nvidia|glob|listdir|iterdir|scandir|import_module|RTLD_GLOBAL"
    rb"|find_library|find_spec|environ)\b"
)
_OF_PYTHON = re.compile(r"\.cpython-3(\d+)t?-")
# Wheels have them under names of their own, if at all.
_OF_COMPILER = re.compile(r"lib(gfortran|quadmath)\.so")
_OF_OTHER_TORCH = re.compile(r"lib(c10|torch)_(hip|xpu)\w*\.so")


class Fault(NamedTuple):
    """A problem of a supply.

    Attributes:
        verb: of the sentence about one library.
        verbs: of that about several.
        rest: of both.
        cause: one that other needs have too, for the text doesn't show it; empty: none.
    """

    severity: Severity
    verb: str
    verbs: str
    rest: str = ""
    cause: str = ""


class Supply(NamedTuple):
    """The source of a needed library.

    Attributes:
        library: in the wheel; or a soname, for the needs of NVIDIA's own libraries.
        supplier: `wheel`, `system`, `driver`, or a project and its folder in site-packages; empty
            if unknown.
        condition: of its being found, if any: an extra, a library loaded before.
        loader: the project, or the wheel's Python code, that has loaded it before; else empty.
    """

    library: str
    soname: str
    supplier: str = ""
    condition: str = ""
    faults: tuple[Fault, ...] = ()
    loader: str = ""


def _loaded_before(supply: Supply, loader: str) -> Supply:
    """Return a supply with what has loaded the library before; an empty loader changes nothing."""
    if not loader:
        return supply
    condition = ", ".join(filter(None, (supply.condition, f"loaded before by {loader}")))
    return supply._replace(condition=condition, loader=loader)


class _Need(NamedTuple):
    """A component's library that is needed, and the wheel's own need that leads to it."""

    soname: str
    component: Component
    majors: frozenset[int]
    origin: str


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The supplies of a wheel."""

    case: AuditCase

    @cached_property
    def conditions(self) -> SupplierConditions:
        """The conditions under which components are installed and loaded."""
        return SupplierConditions(case=self.case)

    @cached_property
    def supplies(self) -> tuple[Supply, ...]:
        """One supply per library and soname, then those of the needs of NVIDIA's libraries."""
        direct = [
            self._supply(library, soname)
            for library, elf in self.case.host_libraries
            for soname in elf.needed
        ]
        return (*direct, *self._transitive())

    def _supply(self, library: ScannedLibrary, soname: str) -> Supply:
        case = self.case
        if soname in case.files:
            return self._from_wheel(library, soname)
        if (supply := self._from_machine(library, soname)) is not None:
            return supply
        if component := self.conditions.component(library, soname):
            return self._from_component(library, soname, component)
        if soname in case.own:
            return self._from_wheel(library, soname)
        return self._unsupplied(library, soname)

    def _from_machine(self, library: ScannedLibrary, soname: str) -> Supply | None:
        """Return the supply of what the system, the driver or the environment's folder has."""
        case, supplier, faults = self.case, "system", []
        if "/" in soname:
            supplier, faults = "", [self._by_path(library, soname)]
        elif is_from_driver(soname):
            supplier, rest = "driver", "from the GPU's driver, which the recipe doesn't declare"
            if case.contract and not case.contract.has_driver:
                faults.append(Fault("error", "comes", "come", rest))
        elif is_from_driver(f"{soname}.1"):
            supplier, rest = "driver", f"of the driver, but only {soname}.1 is on every machine"
            faults.append(Fault(case.severity("warning"), "is", "are", f"{rest} with one"))
        elif self._is_in_prefix(library, soname):
            supplier = "wheel"
        elif soname not in case.system and not soname.startswith("ld-linux"):
            return None
        return Supply(library.name, soname, supplier, faults=tuple(faults))

    def _by_path(self, library: ScannedLibrary, soname: str) -> Fault:
        is_error = self.case.is_loaded(library.name) or self.case.contract
        place = (
            "a path of the build machine" if soname[0] == "/" else "relative to the working folder"
        )
        rest = f"opened by its path, {place}: it needs a soname (-soname)"
        return Fault("error" if is_error else "warning", "is", "are", rest)

    def _is_in_prefix(self, library: ScannedLibrary, soname: str) -> bool:
        """Return True if an rpath entry leads to a file of `.data/data`, below `sys.prefix`."""
        marker = ".data/data/"
        members = (name for name in self.case.scan.names if name.endswith(f"/{soname}"))
        parts = (name.partition(marker)[2] for name in members if marker in name)
        folders = {_PREFIX / PurePosixPath(part).parent for part in parts}
        path = installed_path(library.name)
        if not (folders and path and library.elf):
            return False
        place = _SITE / path
        return any(resolve_entry(place, entry) in folders for entry in library.elf.search_path)

    def _from_wheel(self, library: ScannedLibrary, soname: str) -> Supply:
        folders = self.case.files.get(soname, ())
        if self.case.loader_graph.finds(library.name, soname, folders) or (
            self._is_found_from_prefix(library, folders)
        ):
            return Supply(library.name, soname, "wheel")
        is_opened = self._is_opened(library, soname)
        if is_opened and self._has_soname(soname):
            return _loaded_before(Supply(library.name, soname, "wheel"), OWN_CODE)
        fault = self._lost_in_wheel(library, soname)
        if is_opened:
            is_run = self.case.code.is_always_loaded(library.name)
            rest = f"opened by its path first, but without the soname {soname} (-soname) the loader"
            rest += " doesn't know it for this one, and no rpath entry points to it"
            fault = Fault(self._severity("error" if is_run else "warning"), "is", "are", rest)
        return Supply(library.name, soname, "wheel", "", (fault,))

    def _has_soname(self, soname: str) -> bool:
        """Return True if the loader knows an opened library as `soname`, not by its path alone."""
        case, graph = self.case, self.case.loader_graph
        owners, folders = graph.owners(soname), case.files.get(soname, ())
        return any(graph.elves[owner].soname == soname for owner in owners) or any(
            soname in elf.needed and graph.finds(other.name, soname, folders)
            for other, elf in case.host_libraries
        )

    def _is_found_from_prefix(
        self, library: ScannedLibrary, folders: Iterable[PurePosixPath]
    ) -> bool:
        """Return True if a script's entry leads into the site-packages of the tag's only Python."""
        minor, name = self.case.newest_python, library.name
        site = _PREFIX / f"lib/python3.{minor}/site-packages"
        if minor != self.case.oldest_python or not _SCRIPT.search(name) or not library.elf:
            return False
        place = _PREFIX / "bin" / PurePosixPath(name).name
        found = {resolve_entry(place, entry) for entry in library.elf.search_path}
        return any(site / folder in found for folder in folders)

    def _is_opened(self, library: ScannedLibrary, soname: str) -> bool:
        """Return True if Python code names a needed library, or imports it before a plugin.

        A plugin is what no module needs: a library that was imported opens it.
        """
        case = self.case
        names = {soname, *case.files_of(soname)}
        owners = case.loader_graph.owners(soname)
        is_plugin = not case.is_imported(library.name) and any(map(case.is_imported, owners))
        return not library.is_program and (is_plugin or any(map(case.is_opened, names)))

    def _lost_in_wheel(self, library: ScannedLibrary, soname: str) -> Fault:
        """Return the fault of a library in the wheel that isn't found, or has another name."""
        is_lost = self._is_import_lost(library, soname, self.case.files.get(soname, ()))
        is_loaded = not library.is_program and any(
            preloads(dep.by, soname) for dep in self.case.dependencies
        )
        is_error = is_lost and not is_loaded and not self.case.is_supplier
        severity = self._severity("error" if is_error else self._severity_of_lost(library, soname))
        if script := self._text_of(soname):
            return Fault(severity, "is", "are", script)
        if files := self.case.files_of(soname):
            rest = f"in the wheel only as {files[0]}, a name that the loader doesn't search for"
            return Fault(severity, "is", "are", rest)
        lost = "in the wheel, but no rpath entry points to"
        return Fault(severity, f"is {lost} it", f"are {lost} them")

    def _text_of(self, soname: str) -> str:
        """Return that a file of this name is a linker script, which only linkers read; or empty."""
        libraries = {library.name for library in self.case.scan.libraries}
        named = (name for name in self.case.scan.names if PurePosixPath(name).name == soname)
        text = next((name for name in named if name not in libraries and ".data/" not in name), "")
        return f"in the wheel only as a linker script, {text}, not as a library" if text else ""

    def _severity_of_lost(self, library: ScannedLibrary, soname: str, folder: str = "") -> Severity:
        """Return `note` for a library whose need may be loaded before, as far as the wheel shows.

        It is a plugin, which no module needs and no Python code names: what opens it may
        have loaded others. Or a module that is imported first finds what it needs.
        """
        case, graph = self.case, self.case.loader_graph
        if library.is_program or case.is_imported(library.name):
            return "warning"
        folders = (folder,) if folder else case.files.get(soname, ())
        is_opened = any(map(case.is_opened, graph.names(library.name)))
        is_found = any(
            elf.python_modules and soname in elf.needed and graph.finds(other.name, soname, folders)
            for other, elf in case.host_libraries
        )
        is_alone = len(graph.roots) == 1  # all others are loaded for it
        return "warning" if (is_opened or is_alone) and not is_found else "note"

    def _is_import_lost(
        self, library: ScannedLibrary, soname: str, folders: Iterable[object]
    ) -> bool:
        """Return True if importing a module of the wheel always fails for lack of `soname`.

        False if the library may be loaded before: by Python code, as a module itself, by a library
        that finds it, or by one that opens others by name.
        """
        case, graph = self.case, self.case.loader_graph
        may_be_loaded = bool(case.scan.loaders) or any(
            (elf.uses_dlopen and not other.cudart)  # the linked CUDA runtime opens the driver
            or (elf.python_modules and other.name in graph.owners(soname))
            or (soname in elf.needed and graph.finds(other.name, soname, folders))
            for other, elf in case.host_libraries
        )
        return case.is_imported(library.name) and not may_be_loaded

    def _is_opening_lost(self, library: ScannedLibrary, soname: str, component: Component) -> bool:
        """Return True if code of an import opens a library, and nothing loads its need before.

        That is known where all code that loads libraries does so at once, each by its own name.
        """
        case, graph = self.case, self.case.loader_graph
        texts = [case.scan.sources.get(name, b"try") for name in case.scan.loaders]
        stem = soname.partition(".so")[0].removeprefix("lib").encode()
        is_plain = not any(stem in text or _BY_CHOICE.search(text) for text in texts)
        modules = {item.module.partition(".")[0] for item in case.code.imports}
        is_plain &= modules <= (
            sys.stdlib_module_names | case.code.folders | case.code.modules.keys()
        )
        may_be_loaded = any(
            (elf.uses_dlopen and not other.cudart)
            or (soname in elf.needed and graph.finds(other.name, soname, (component.site_folder,)))
            for other, elf in case.host_libraries
        )
        is_opened = case.is_loaded(library.name) and not library.is_program
        return is_opened and is_plain and not (may_be_loaded or case.unknown_projects)

    def _from_component(self, library: ScannedLibrary, soname: str, component: Component) -> Supply:
        contract = self.case.contract
        faults = []
        if contract and component.name not in contract.links:
            rest = f'from "{component.name}", which the recipe doesn\'t declare'
            faults.append(Fault("error", "comes", "come", rest))
        condition, missing = self.conditions.condition(component, soname, library)
        if missing and component.cuda is None and self.case.is_torch_variant(library.name):
            missing = "note"  # code chooses one by the installed release
        if _OF_OTHER_TORCH.fullmatch(soname) and not contract:
            faults.append(self._of_other_torch(library, soname))
        lost, loader = self._lost_elsewhere(library, soname, component)
        if missing:
            severity = min(missing, lost or missing, key=SEVERITIES.index)
            rest = f"from {component.distribution}, {self.conditions.why_missing(component)}"
            if other := self.conditions.other_release(component):
                rest += f": {other}, which is, has the library for another CUDA"
            if lost:  # the same cause, which has one finding
                rest += f"; no rpath entry points to {component.site_folder}"
            cause = "requirements" if component.cuda else ""
            faults.append(Fault(severity, "comes", "come", rest, cause))
        elif wrong := self.conditions.contradiction(component):
            rest = (
                f"from {component.distribution}{component.releases}, but the wheel requires {wrong}"
            )
            faults.append(Fault(self._severity("error"), "comes", "come", rest))
        if lost and not missing:
            rest = f"in {component.site_folder}, but no rpath entry points there"
            faults.append(Fault(lost, "is", "are", rest, "search"))
        supplier = f"{component.distribution} ({component.site_folder})"
        supply = Supply(library.name, soname, supplier, condition, tuple(faults))
        return _loaded_before(supply, loader)

    def _of_other_torch(self, library: ScannedLibrary, soname: str) -> Fault:
        """Return the fault of a library of PyTorch for AMD's or Intel's GPUs."""
        is_stated = re.search(r"(?i)rocm|xpu|sycl", self.case.scan.file_name)
        is_lost = self.case.is_loaded(library.name) and not self.conditions.has_alternatives
        severity: Severity = "error" if is_lost else "warning"
        make = "AMD's" if "_hip" in soname else "Intel's"
        rest = f"only in builds of torch for {make} GPUs, not in the one of the public index"
        return Fault("note" if is_stated else severity, "is", "are", rest)

    def _lost_elsewhere(
        self, library: ScannedLibrary, soname: str, component: Component
    ) -> tuple[Severity | None, str]:
        """Return how bad it is that a library doesn't find another's folder, and what loads it."""
        is_found = self.case.loader_graph.finds(library.name, soname, (component.site_folder,))
        if is_found or self.conditions.is_sibling(component):
            return None, ""
        # What starts a program imports nothing into its process.
        loader = "" if library.is_program else self.conditions.loader_of(soname, component, library)
        loader = loader or (OWN_CODE if self._is_opened(library, soname) else "")
        if loader and not self.case.contract:
            return None, loader
        if self.case.gpu_projects and self.case.scan.loaders and not library.is_program:
            return self._severity("note"), loader  # the wheel's code may load one's libraries
        is_lost = not self.case.unknown_projects and self._is_import_lost(
            library, soname, (component.site_folder,)
        )
        is_lost |= self._is_opening_lost(library, soname, component)
        severity = self._severity_of_lost(library, soname, component.site_folder)
        if not is_lost and self._is_passed(soname):
            severity = "note"
        return self._severity("error" if is_lost else severity), loader

    def _is_passed(self, soname: str) -> bool:
        """Return True if Python code names a library, and one of the wheel's may load it then."""
        text = re.compile(rb"[\"'/]%b[\"']" % re.escape(soname.encode()))
        may_load = any(elf.uses_dlopen for _, elf in self.case.host_libraries)
        return may_load and any(map(text.search, self.case.scan.sources.values()))

    def _unsupplied(self, library: ScannedLibrary, soname: str) -> Supply:
        loaders = sorted({dep.by for dep in self.case.dependencies if preloads(dep.by, soname)})
        namesake = self.conditions.namesake(soname) or (
            "" if is_cuda_library(soname) else self.conditions.expected_from(library)
        )
        supplier, condition, loader, fault = "", "", "", None
        if is_other_accelerator(soname):
            supplier = "another accelerator's software"
        elif self.case.contract:
            fault = self._missing(library, soname)
        elif loaders and not is_cuda_library(soname):
            supplier = loader = loaders[0]
            rest = f"in the wheel, nor on every system; loaded before by {loader}"
            fault = Fault("note", "is neither", "are neither", rest)
        elif namesake and not _OF_COMPILER.match(soname):
            supplier, condition = namesake, "judging by its name"
            rest = f"to come from {namesake}, whose wheel isn't known here"
            fault = Fault("note", "seems", "seem", rest)
        elif (unknown := self.case.gpu_projects) and self.case.scan.loaders:
            rest = f"in the wheel; its Python code may load what {' or '.join(unknown[:3])} has"
            fault = Fault("note", "isn't", "aren't", rest)
        elif others := self.conditions.namesakes(library):
            rest = f"in the wheel; what {others[0]} requires isn't known here"
            fault = Fault("note", "isn't", "aren't", rest)
        elif importing := self.conditions.imported_namesake(soname):
            supplier = loader = importing
            rest = f"from {importing}, which Python code imports, and "
            installers = " or ".join(self.case.unknown_projects[:3])
            rest += f"{installers} may install" if installers else "no requirement installs"
            fault = Fault("note" if installers else "warning", "comes", "come", rest)
        elif soname in _OF_TORCH and (user := self._user_of_torch()):
            supplier, loader = "torch", "torch"
            rest = "in the wheel, nor on every system; loaded before by torch, into which the "
            rest += f"rpath of {user} leads"
            fault = Fault("note", "is neither", "are neither", rest)
        else:
            fault = self._missing(library, soname)
        supply = Supply(library.name, soname, supplier, condition, (fault,) if fault else ())
        return _loaded_before(supply, loader)

    def _user_of_torch(self) -> str:
        """Return a library with an rpath into PyTorch, which an unknown requirement may import."""
        folders = map(self.case.loader_graph.folders, self.case.loader_graph.elves)
        names = zip(self.case.loader_graph.elves, folders, strict=True)
        found = (name for name, paths in names if _TORCH_FOLDER in paths)
        return PurePosixPath(next(found, "")).name if self.case.unknown_projects else ""

    def _missing(self, library: ScannedLibrary, soname: str) -> Fault:
        is_cuda = is_cuda_library(soname)
        is_vital = self.case.loader_graph.is_vital((soname,))
        is_vital |= self.case.code.is_always_loaded(library.name)
        # NVIDIA's wheels have libraries for other machines, which others open by name.
        severity: Severity = "error" if is_vital and not self.case.is_supplier else "warning"
        if (self.case.is_supplier and not self._is_needed(library)) or self._is_tried(library):
            severity = "note"  # for users who have what it needs, as an MPI
        if self.case.contract:
            severity = "error"
        elif self.conditions.has_alternatives:
            severity = "note" if is_cuda else "warning"
        if is_cuda:
            rest = "that no component supplies"
            return Fault(severity, "is a CUDA library", "are CUDA libraries", rest)
        if script := self._text_of(soname):
            return Fault(severity, "is", "are", script)
        if graft := next((n for n in self.case.files if name_before_graft(n) == soname), ""):
            severity = "error" if self.case.is_loaded(library.name) else severity
            rest = f"in the wheel only as {graft}, a name that the loader doesn't search for"
            return Fault(severity, "is", "are", rest)
        ends = f"/{soname}"
        members = (n for n in self.case.scan.names if ".data/data/" in n and n.endswith(ends))
        if member := next(members, ""):
            rest = f"in the wheel only as {member}, which installers put into the environment's "
            rest += "own folders, where no rpath entry leads"
            return Fault(severity, "is", "are", rest)
        rest = "in the wheel, nor on every system that its tag covers"
        return Fault(severity, "is neither", "are neither", rest)

    def _is_tried(self, library: ScannedLibrary) -> bool:
        """Return True for a module that code does without, or that is for another Python."""
        code, file = self.case.code, PurePosixPath(library.name).name
        match, minors = _OF_PYTHON.search(file), {minor_of(tag) for tag in self.case.tags}
        if match and minors and None not in minors and int(match[1]) not in minors:
            return True
        return not code.is_always_loaded(library.name) and code.tries(file.partition(".")[0])

    def _is_needed(self, library: ScannedLibrary) -> bool:
        graph = self.case.loader_graph
        return library.name not in graph.roots or self.case.is_loaded(library.name)

    def _transitive(self) -> Iterator[Supply]:
        """Yield the supplies of what NVIDIA's own libraries need, breadth first."""
        queue = [
            _Need(soname, component, self.conditions.majors_of(library), soname)
            for library, elf in self.case.host_libraries
            for soname in elf.needed
            if soname not in self.case.files
            and (component := self.conditions.component(library, soname)) is not None
        ]
        done: set[tuple[str, str]] = set()
        for need in queue:
            soname, component, majors, origin = need
            for needed in component.needs:
                key = (component.distribution, needed)
                if key in done or component.cuda is None:
                    continue
                done.add(key)
                accepted = majors or frozenset({component.cuda})
                suppliers = self.case.candidates(needed, accepted)
                if suppliers:
                    queue.append(_Need(needed, suppliers[0], accepted, origin))
                yield self._transitive_supply(need, needed, suppliers)
            if (soname, "") not in done:
                done.add((soname, ""))
                yield from self._lost(soname, component)

    def _lost(self, soname: str, component: Component) -> Iterator[Supply]:
        """Yield what some releases of NVIDIA's own library don't find through their rpath."""
        for pattern, releases in component.lost:
            is_needed = pattern in (*component.needs, *component.opens)
            if not is_needed or self.conditions.is_loaded(pattern):
                continue
            required = self.conditions.required_releases(component)
            if any(has_common_release(SpecifierSet(releases), allowed) for allowed in required):
                mended = SpecifierSet(releases.replace("<", ">="))
                is_mended = any(has_common_release(mended, allowed) for allowed in required)
                rest = (
                    f"not found through the rpath of {component.distribution}{releases}: it has "
                    "to be loaded first"
                )
                # Installers take the newest of the allowed releases.
                severity: Severity = "note" if is_mended else "warning"
                faults = (Fault(severity, "is", "are", rest),)
                label = f"{soname} of {component.distribution}"
                yield Supply(label, pattern, "a library loaded before", faults=faults)

    def _transitive_supply(
        self, need: _Need, needed: str, suppliers: tuple[Component, ...]
    ) -> Supply:
        component = need.component
        label = f"{need.soname} of {component.distribution}"
        if not suppliers:
            return Supply(label, needed, "unknown")
        supplier = suppliers[0]
        known = {component.distribution, *component.brings, *self.conditions.installed()}
        condition, severity = "", None
        if supplier.distribution not in known:
            condition, severity = self.conditions.condition(supplier, need.origin)
        rest = (
            f"from {supplier.distribution}, which neither {component.distribution} nor this wheel "
            "requires"
        )
        if severity and self.case.gpu_projects and not self.case.contract:
            severity = "note"  # one of these may require it
        faults = (Fault(severity, "comes", "come", rest),) if severity else ()
        place = f"{supplier.distribution} ({supplier.site_folder})"
        return Supply(label, needed, place, condition, faults)

    def _severity(self, third_party: Severity) -> Severity:
        return self.case.severity("note" if self.conditions.has_alternatives else third_party)
