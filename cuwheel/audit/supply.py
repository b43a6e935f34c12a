"""Who supplies what a wheel's libraries need, transitively through NVIDIA's wheels.

A library finds another in three ways: an rpath entry leads to its folder, something loaded it
before (the loader compares sonames), or the system has it. The first can be read from the file, the
last from the platform tag; for the second one has to know who loads what.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from cuwheel.audit.requirements import SupplierConditions
from cuwheel.cuda.frameworks import has_common_release, preloads
from cuwheel.cuda.suppliers import is_cuda_library, is_from_driver, is_other_accelerator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.audit.case import Case
    from cuwheel.audit.findings import Severity
    from cuwheel.audit.scan import ScannedLibrary
    from cuwheel.cuda.components import Component


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with a supply.

    Attributes:
        severity: how bad it is.
        fact: about one library, for which `{}` stands.
        facts: the same about several.
    """

    severity: Severity
    fact: str
    facts: str


def _fault(severity: Severity, one: str, several: str, rest: str) -> Fault:
    """`{}`, then a verb for one or for several, then what is the same of both."""
    return Fault(severity=severity, fact=f"{{}} {one} {rest}", facts=f"{{}} {several} {rest}")


@dataclass(frozen=True, kw_only=True)
class Supply:
    """Who supplies what a library needs.

    Attributes:
        library: in the wheel; or a soname, for what NVIDIA's own libraries need.
        soname: that it needs.
        supplier: `wheel`, `system`, `driver`, or a project and its folder in site-packages; empty
            where nobody is known.
        condition: under which it is found, where there is one: an extra, a library loaded before.
        faults: what is wrong.
    """

    library: str
    soname: str
    supplier: str = ""
    condition: str = ""
    faults: tuple[Fault, ...] = ()


class _Need(NamedTuple):
    """A component's library that is needed, and what the wheel itself needs that leads to it."""

    soname: str
    component: Component
    majors: frozenset[int]
    origin: str


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The supplies of a wheel, worked out once.

    Attributes:
        case: the wheel.
    """

    case: Case

    @cached_property
    def conditions(self) -> SupplierConditions:
        """What brings and loads what."""
        return SupplierConditions(case=self.case)

    @cached_property
    def supplies(self) -> tuple[Supply, ...]:
        """For each library and each soname that it needs, then for what NVIDIA's libraries need."""
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
        if soname in case.system or soname.startswith("ld-linux"):
            return Supply(library=library.name, soname=soname, supplier="system")
        if is_from_driver(soname):
            return self._from_driver(library, soname)
        if component := self.conditions.component(library, soname):
            return self._from_component(library, soname, component)
        if soname in case.own:
            return self._from_wheel(library, soname)
        return self._unsupplied(library, soname)

    def _from_wheel(self, library: ScannedLibrary, soname: str) -> Supply:
        is_found = self.conditions.loader_graph.finds(
            library, soname, self.case.files.get(soname, ())
        )
        return Supply(
            library=library.name,
            soname=soname,
            supplier="wheel",
            faults=() if is_found else (self._lost_in_wheel(library, soname),),
        )

    def _lost_in_wheel(self, library: ScannedLibrary, soname: str) -> Fault:
        """Of a library that is in the wheel and isn't found, under this name or under another."""
        is_lost = self.conditions.loader_graph.is_import_lost(library, soname)
        is_loaded = any(preloads(one.by, soname) for one in self.case.dependencies)
        is_error = is_lost and not is_loaded and not self.case.is_supplier
        severity = self._severity("error" if is_error else "warning")
        if files := self.case.files_of(soname):
            rest = f"in the wheel only as {files[0]}, a name that the loader doesn't search for"
            return _fault(severity, "is", "are", rest)
        return Fault(
            severity=severity,
            fact="{} is in the wheel, but no rpath entry points to it",
            facts="{} are in the wheel, but no rpath entry points to them",
        )

    def _from_driver(self, library: ScannedLibrary, soname: str) -> Supply:
        contract = self.case.contract
        rest = "from the GPU's driver, which the recipe doesn't declare"
        fault = _fault("error", "comes", "come", rest)
        return Supply(
            library=library.name,
            soname=soname,
            supplier="driver",
            faults=(fault,) if contract and not contract.has_driver else (),
        )

    def _from_component(self, library: ScannedLibrary, soname: str, component: Component) -> Supply:
        contract = self.case.contract
        faults = []
        if contract and component.name not in contract.links:
            rest = f'from "{component.name}", which the recipe doesn\'t declare'
            faults.append(_fault("error", "comes", "come", rest))
        condition, severity = self.conditions.condition(component, soname)
        if severity:
            rest = f"from {component.distribution}, which isn't in Requires-Dist"
            if other := self.conditions.other_release(component):
                rest += f": {other}, which is, has the library for another CUDA"
            faults.append(_fault(severity, "comes", "come", rest))
        elif wrong := self.conditions.contradiction(component):
            rest = (
                f"from {component.distribution}{component.releases}, but the wheel requires {wrong}"
            )
            faults.append(_fault(self._severity("error"), "comes", "come", rest))
        if not self.conditions.loader_graph.finds(library, soname, (component.site_folder,)):
            loader = self.conditions.loader_of(soname, component)
            condition = ", ".join(part for part in (condition, loader) if part)
            rest = f"in {component.site_folder}, but no rpath entry points there"
            if not loader or contract:
                faults.append(_fault(self._severity("warning"), "is", "are", rest))
        return Supply(
            library=library.name,
            soname=soname,
            supplier=f"{component.distribution} ({component.site_folder})",
            condition=condition,
            faults=tuple(faults),
        )

    def _unsupplied(self, library: ScannedLibrary, soname: str) -> Supply:
        loaders = sorted({one.by for one in self.case.dependencies if preloads(one.by, soname)})
        namesake = self.conditions.namesake(soname) or (
            "" if is_cuda_library(soname) else self.conditions.expected_from(library)
        )
        supplier, condition, fault = "", "", None
        if is_other_accelerator(soname):
            supplier = "another accelerator's software"
        elif self.case.contract:
            fault = self._missing(soname)
        elif loaders and not is_cuda_library(soname):
            supplier, condition = loaders[0], f"loaded before by {loaders[0]}"
            rest = f"in the wheel, nor on every system; {condition}"
            fault = _fault("note", "is neither", "are neither", rest)
        elif namesake:
            supplier, condition = namesake, "judging by its name"
            rest = f"to come from {namesake}, whose wheel isn't known here"
            fault = _fault("note", "seems", "seem", rest)
        elif others := self.conditions.namesakes(library):
            rest = f"in the wheel; what {others[0]} requires isn't known here"
            fault = _fault("note", "isn't", "aren't", rest)
        else:
            fault = self._missing(soname)
        return Supply(
            library=library.name,
            soname=soname,
            supplier=supplier,
            condition=condition,
            faults=(fault,) if fault else (),
        )

    def _missing(self, soname: str) -> Fault:
        is_cuda = is_cuda_library(soname)
        severity: Severity = (
            "error" if self.conditions.loader_graph.is_vital((soname,)) else "warning"
        )
        if self.case.contract:
            severity = "error"
        elif self.conditions.has_alternatives:
            severity = "note" if is_cuda else "warning"
        if is_cuda:
            rest = "that no component supplies"
            return _fault(severity, "is a CUDA library", "are CUDA libraries", rest)
        rest = "in the wheel, nor on every system that its tag covers"
        return _fault(severity, "is neither", "are neither", rest)

    def _transitive(self) -> Iterator[Supply]:
        """What NVIDIA's own libraries need, until nothing new is found."""
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
                own = majors or frozenset({component.cuda})
                found = self.case.candidates(needed, own)
                if found:
                    queue.append(_Need(needed, found[0], own, origin))
                yield self._transitive_supply(need, needed, found)
            if (soname, "") not in done:
                done.add((soname, ""))
                yield from self._lost(soname, component)

    def _lost(self, soname: str, component: Component) -> Iterator[Supply]:
        """What the rpath of some releases of NVIDIA's own library doesn't lead to."""
        for pattern, releases in component.lost:
            is_needed = pattern in (*component.needs, *component.opens)
            if not is_needed or self.conditions.is_loaded(pattern):
                continue
            if any(
                has_common_release(releases, one)
                for one in self.conditions.required_releases(component)
            ):
                rest = (
                    f"not found through the rpath of {component.distribution}{releases}: it has "
                    "to be loaded first"
                )
                yield Supply(
                    library=f"{soname} of {component.distribution}",
                    soname=pattern,
                    supplier="a library loaded before",
                    faults=(_fault("warning", "is", "are", rest),),
                )

    def _transitive_supply(self, need: _Need, needed: str, found: tuple[Component, ...]) -> Supply:
        component = need.component
        label = f"{need.soname} of {component.distribution}"
        if not found:
            return Supply(library=label, soname=needed, supplier="unknown")
        supplier = found[0]
        name = canonicalize_name(supplier.distribution)
        condition, severity = "", None
        if name not in {
            canonicalize_name(component.distribution),
            *map(canonicalize_name, component.brings),
            *self.conditions.installed(),
        }:
            condition, severity = self.conditions.condition(supplier, need.origin)
        rest = (
            f"from {supplier.distribution}, which neither {component.distribution} nor this wheel "
            "requires"
        )
        return Supply(
            library=label,
            soname=needed,
            supplier=f"{supplier.distribution} ({supplier.site_folder})",
            condition=condition,
            faults=(_fault(severity, "comes", "come", rest),) if severity else (),
        )

    def _severity(self, otherwise: Severity) -> Severity:
        return self.case.severity("note" if self.conditions.has_alternatives else otherwise)
