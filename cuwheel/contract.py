"""What a wheel promises about its libraries, and the rules that find where it breaks the promise.

Platform tags are judged by the policies that auditwheel carries: which symbol versions and which
system libraries a manylinux system has (PEP 600).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import Policy, WheelPolicies
from packaging.utils import canonicalize_name

from cuwheel.linkage import component_of, is_cuda_library, is_from_driver, resolve_entry
from cuwheel.wheelmeta import header, installed_path, is_optional, project_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import PurePosixPath

    from cuwheel.components import Component
    from cuwheel.elf import Elf
    from cuwheel.wheelscan import Library, WheelScan

_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}  # platform tag, ELF


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A breach: which file, which rule, what is the fact."""

    file: str
    rule: str
    fact: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.file}: {self.rule}: {self.fact}"


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What the wheel has to be.

    Attributes:
        project: normalised name.
        release: version without local part; None where the source was given by hand.
        local_version: the part after `+`.
        cuda: major release of CUDA.
        python: `3.12`; None where one wheel serves every Python.
        links: declared components.
        archs: of the machine code, sorted.
        ptx_archs: of the PTX, sorted.
        max_size: bytes.
    """

    project: str
    release: str | None
    local_version: str
    cuda: int
    python: str | None
    links: tuple[str, ...]
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    max_size: int


@dataclass(frozen=True, kw_only=True)
class Supply:
    """Who supplies what a library needs: the library, the soname, the supplier, and what is wrong.

    A supplier is `wheel`, `system`, `driver`, or a project and its folder in site-packages.
    """

    library: str
    soname: str
    supplier: str = ""
    faults: tuple[str, ...] = ()


def policy_of(platform: str) -> Policy | None:
    """Auditwheel's policy for a platform tag; None for one that isn't manylinux."""
    for name in _MACHINES:
        if platform.startswith("manylinux") and platform.endswith(f"_{name}"):
            policies = WheelPolicies(libc=Libc.GLIBC, arch=Architecture(name))
            return next(
                (found for found in policies if platform in (found.name, *found.aliases)), None
            )
    return None


def library_findings(
    scan: WheelScan, contract: Contract, platforms: Iterable[str]
) -> Iterator[Finding]:
    """Breaches of single libraries: damage, machine, symbols, stack, relocations, rpath entries.

    Args:
        scan: the wheel.
        contract: what it has to be.
        platforms: the platform tags in its name.
    """
    platforms = tuple(platforms)
    policies = [policy for platform in platforms if (policy := policy_of(platform))]
    if not scan.libraries:
        yield Finding(file=scan.file_name, rule="library", fact="it holds no compiled library")
    for library in scan.libraries:
        if library.damage:
            yield Finding(file=library.name, rule="library", fact=library.damage)
        if library.elf and library.elf.is_host_code:
            yield from _machine_findings(library.name, library.elf, platforms)
            yield from _symbol_findings(library.name, library.elf, policies)
            yield from _hardening_findings(library.name, library.elf)
            yield from _rpath_findings(library.name, library.elf, scan, contract.cuda)


def supplies(scan: WheelScan, contract: Contract, platforms: Iterable[str]) -> Iterator[Supply]:
    """For each library and each soname that it needs: who supplies it.

    Args:
        scan: the wheel.
        contract: what it has to be.
        platforms: the platform tags in its name.
    """
    lists = [policy.whitelist for platform in platforms if (policy := policy_of(platform))]
    system = frozenset[str].intersection(*lists) if lists else frozenset()
    own = _own_libraries(scan)
    requires = header(scan.metadata, "requires-dist")
    required = {project_of(text) for text in requires if not is_optional(text)}
    for library in scan.libraries:
        for soname in library.elf.needed if library.elf else ():
            if soname in own:
                supply = _from_wheel(library, soname, own[soname])
            elif soname in system or soname.startswith("ld-linux"):
                supply = Supply(library=library.name, soname=soname, supplier="system")
            elif is_from_driver(soname):
                supply = Supply(library=library.name, soname=soname, supplier="driver")
            elif component := component_of(soname, contract.cuda):
                supply = _from_component(library, soname, component, contract.links, required)
            else:
                supply = _from_nowhere(library, soname)
            yield supply


def _machine_findings(name: str, elf: Elf, platforms: tuple[str, ...]) -> Iterator[Finding]:
    promised = {
        machine for tag, machine in _MACHINES.items() if any(p.endswith(tag) for p in platforms)
    }
    if promised and elf.machine not in promised:
        fact = f"it is for {elf.machine}, the tag says {', '.join(platforms)}"
        yield Finding(file=name, rule="platform tag", fact=fact)


def _symbol_findings(name: str, elf: Elf, policies: Iterable[Policy]) -> Iterator[Finding]:
    """Symbol versions that some system which the tag promises to run on doesn't have."""
    for policy in policies:
        for supplier, symbol in elf.versions:
            family, _, version = symbol.partition("_")
            known = policy.symbol_versions.get(family)
            if known is not None and version not in known:
                fact = f"it needs {symbol} of {supplier}, which {policy.name} doesn't have"
                yield Finding(file=name, rule="platform tag", fact=fact)


def _hardening_findings(name: str, elf: Elf) -> Iterator[Finding]:
    # glibc 2.41 and later refuse to load such a library (its NEWS, "dlopen ... executable stack").
    if elf.has_executable_stack:
        yield Finding(file=name, rule="executable stack", fact="it asks for one")
    if elf.has_text_relocations:
        yield Finding(file=name, rule="text relocations", fact="the loader has to write its code")


def _rpath_findings(name: str, elf: Elf, scan: WheelScan, cuda: int) -> Iterator[Finding]:
    """Entries that are absolute, leave site-packages, or lead to no folder with libraries."""
    place = installed_path(name)
    for entry in (*elf.rpath, *elf.runpath):
        folder = resolve_entry(place, entry) if place else None
        if folder is None:
            fact = f"the entry {entry} doesn't lead to a folder below site-packages"
            yield Finding(file=name, rule="rpath", fact=fact)
        elif not (_holds_library(folder, scan) or _is_component_folder(folder, scan, cuda)):
            yield Finding(file=name, rule="rpath", fact=f"the entry {entry} leads to nothing")


def _holds_library(folder: PurePosixPath, scan: WheelScan) -> bool:
    places = (installed_path(library.name) for library in scan.libraries)
    return any(place is not None and place.parent == folder for place in places)


def _is_component_folder(folder: PurePosixPath, scan: WheelScan, cuda: int) -> bool:
    """Whether some library of the wheel takes something from that folder of another wheel."""
    needed = {soname for library in scan.libraries if library.elf for soname in library.elf.needed}
    components = (component_of(soname, cuda) for soname in needed)
    return any(component and component.site_folder == str(folder) for component in components)


def _own_libraries(scan: WheelScan) -> dict[str, tuple[PurePosixPath, ...]]:
    """Places in site-packages of each of the wheel's libraries, by file name and by soname."""
    found: dict[str, tuple[PurePosixPath, ...]] = {}
    for library in scan.libraries:
        place = installed_path(library.name)
        if place and library.elf and library.elf.is_host_code:
            for name in {place.name, library.elf.soname or place.name}:
                found[name] = (*found.get(name, ()), place.parent)
    return found


def _from_wheel(library: Library, soname: str, folders: tuple[PurePosixPath, ...]) -> Supply:
    reached = _is_reached(library, map(str, folders))
    faults = () if reached else (f"{soname} is in the wheel and no rpath entry leads to it",)
    return Supply(library=library.name, soname=soname, supplier="wheel", faults=faults)


def _from_component(
    library: Library,
    soname: str,
    component: Component,
    links: tuple[str, ...],
    required: set[str],
) -> Supply:
    faults = []
    if component.name not in links:
        faults.append(f'{soname} comes from "{component.name}", which the recipe doesn\'t declare')
    if canonicalize_name(component.distribution) not in required:
        faults.append(f"{soname} comes from {component.distribution}, which isn't in Requires-Dist")
    if not _is_reached(library, [component.site_folder]):
        faults.append(f"{soname} is in {component.site_folder} and no rpath entry leads there")
    supplier = f"{component.distribution} ({component.site_folder})"
    return Supply(library=library.name, soname=soname, supplier=supplier, faults=tuple(faults))


def _from_nowhere(library: Library, soname: str) -> Supply:
    kind = (
        "a CUDA library that no component supplies"
        if is_cuda_library(soname)
        else ("neither in the wheel, nor on every system that its tag promises")
    )
    return Supply(library=library.name, soname=soname, faults=(f"{soname} is {kind}",))


def _is_reached(library: Library, folders: Iterable[str]) -> bool:
    place = installed_path(library.name)
    if place is None or library.elf is None:
        return False
    ways = {str(resolve_entry(place, entry)) for entry in library.elf.search_path}
    return not ways.isdisjoint(folders)
