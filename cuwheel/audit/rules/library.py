"""Rules for single libraries: machine, symbols, hardening, rpath entries, device code, driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import Version

from cuwheel.audit.findings import Finding
from cuwheel.audit.manylinux import MACHINES, first_with, is_missing
from cuwheel.audit.scan import join_codes
from cuwheel.cuda.components import KNOWN_COMPONENTS
from cuwheel.cuda.driver_functions import release_of_function
from cuwheel.cuda.suppliers import is_from_driver, is_grafted, resolve_entry
from cuwheel.cuda.toolkits import oldest_driver
from cuwheel.system.quantities import plural, show_size
from cuwheel.wheel.metadata import installed_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import PurePosixPath

    from cuwheel.audit.case import Case
    from cuwheel.audit.scan import ScannedLibrary
    from cuwheel.binaries.archs import DeviceCode
    from cuwheel.binaries.elf import Elf


_SITE_FOLDERS = frozenset(component.site_folder for component in KNOWN_COMPONENTS)
# PEP 3149 and PEP 384: `ext.cpython-312-x86_64-linux-gnu.so`, `ext.abi3.so`.
_EXTENSION = re.compile(r"(?P<module>[^/.]+)(\.cpython-3\d+t?-(?P<platform>[-\w]+)|\.abi3)\.so$")
_ORIGINS = ("$ORIGIN", "${ORIGIN}")
_SHOWN = 3  # names in one finding; a library may need hundreds
# The largest pages of a system for arm64 (Linux, arch/arm64/Kconfig, ARM64_64K_PAGES), bytes.
_LARGEST_PAGE = {"EM_AARCH64": 64 << 10}


def library_findings(case: Case) -> Iterator[Finding]:
    """Breaches of single libraries, in the wheel's order."""
    if not case.scan.libraries and case.contract:
        yield Finding(
            file=case.scan.file_name, rule="library", fact="it contains no compiled library"
        )
    for library in case.scan.libraries:
        if library.damage:
            yield Finding(file=library.name, rule="library", fact=library.damage)
    for library, elf in case.host_libraries:
        yield from _machine_findings(library.name, elf, case)
        yield from _import_findings(library.name, elf)
        yield from _symbol_findings(library.name, elf, case)
        yield from _page_findings(library.name, elf, case)
        yield from _hardening_findings(library.name, elf)
        yield from _rpath_findings(library.name, elf, case)
        yield from _driver_findings(library, elf, case)
        yield from _abi_findings(library.name, elf, case)
    yield from _arch_findings(case)


def _machine_findings(name: str, elf: Elf, case: Case) -> Iterator[Finding]:
    promised = {
        machine for tag, machine in MACHINES.items() if any(p.endswith(tag) for p in case.platforms)
    }
    if promised and elf.machine not in promised:
        fact = f"it is for {elf.machine}, the tag is {', '.join(case.platforms)}"
        yield Finding(file=name, rule="platform tag", fact=fact)
    if elf.instruction_set and case.policies:
        fact = (
            f"its ELF notes require an {elf.instruction_set} CPU, the tag includes every x86-64 CPU"
        )
        severity = case.severity("warning")
        yield Finding(file=name, rule="platform tag", fact=fact, severity=severity)


def _import_findings(name: str, elf: Elf) -> Iterator[Finding]:
    """An extension module that Python doesn't find, or finds and can't start, by its own name."""
    found = _EXTENSION.search(name)
    if found is None:
        return
    platform = found["platform"] or ""
    machine = MACHINES.get(platform.partition("-")[0], elf.machine)
    if machine != elf.machine:
        fact = f"its name says {platform}, but it is for {elf.machine}: no Python can import it"
        yield Finding(file=name, rule="library", fact=fact)
    if elf.python_modules and found["module"] not in elf.python_modules:
        has = ", ".join(f"PyInit_{module}" for module in elf.python_modules[:_SHOWN])
        fact = f"importing it calls PyInit_{found['module']}, but it has {has}"
        yield Finding(file=name, rule="library", fact=fact)


def _symbol_findings(name: str, elf: Elf, case: Case) -> Iterator[Finding]:
    """Symbol versions that the oldest systems which the tag promises to run on don't have."""
    for policy in case.policies:
        missing = [
            (supplier, symbol)
            for supplier, symbol in elf.versions
            if supplier not in case.own and is_missing(symbol, policy)
        ]
        better = first_with((symbol for _, symbol in missing), policy.name.split("_", 3)[-1])
        has = f"; {better} does" if better else ""
        for supplier, symbol in _newest(missing):
            fact = f"it needs {symbol} of {supplier}, which {policy.name} doesn't guarantee{has}"
            yield Finding(file=name, rule="platform tag", fact=fact)
        if missing:
            return


def _newest(symbols: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of each library and family of versions (`GLIBC`) the newest."""
    found: dict[tuple[str, str], str] = {}
    for supplier, symbol in symbols:
        family, _, version = symbol.partition("_")
        best = found.get((supplier, family))
        if best is None or Version(version) > Version(best):
            found[supplier, family] = version
    return [(supplier, f"{family}_{version}") for (supplier, family), version in found.items()]


def _page_findings(name: str, elf: Elf, case: Case) -> Iterator[Finding]:
    """Parts of a library that systems with larger pages can't map."""
    largest = _LARGEST_PAGE.get(elf.machine, 0)
    if elf.is_dynamic and elf.page_size < largest:
        fact = (
            f"its segments are aligned to {show_size(elf.page_size)}: systems with pages of "
            f"{show_size(largest)} don't load it"
        )
        severity = case.severity("warning")
        yield Finding(file=name, rule="page size", fact=fact, severity=severity)


def _hardening_findings(name: str, elf: Elf) -> Iterator[Finding]:
    # glibc 2.41 and later refuse to load such a library (its NEWS, "dlopen ... executable stack").
    if elf.has_executable_stack:
        yield Finding(file=name, rule="executable stack", fact="it requires an executable stack")
    if elf.has_text_relocations:
        yield Finding(file=name, rule="text relocations", fact="the loader has to modify its code")
    if elf.is_dynamic and elf.relro == "none":
        fact = "its relocated data stays writable (no PT_GNU_RELRO)"
        yield Finding(file=name, rule="relro", fact=fact, severity="warning")


def _rpath_findings(name: str, elf: Elf, case: Case) -> Iterator[Finding]:
    """Entries that depend on the machine, and entries that lead to no folder with libraries.

    The latter do no harm to a wheel of others: what it needs has to be found on another way, and
    that is checked by itself.
    """
    path = installed_path(name)
    for entry in dict.fromkeys((*elf.rpath, *elf.runpath)):
        folder = resolve_entry(path, entry) if path else None
        if folder is None:
            named = entry or '"", the current folder of the program,'
            fact = f"the entry {named} doesn't point to a folder below site-packages"
            severity = case.severity("note" if entry.startswith(_ORIGINS) else "warning")
            yield Finding(file=name, rule="rpath", fact=fact, severity=severity)
        elif not _leads_to_libraries(folder, case):
            fact = f"the entry {entry} points to a missing folder or one without libraries"
            severity = case.severity("note")
            yield Finding(file=name, rule="rpath", fact=fact, severity=severity)


def _leads_to_libraries(folder: PurePosixPath, case: Case) -> bool:
    """Whether the wheel has libraries there, or another whose libraries it needs.

    In wheels of others an rpath may lead to any folder of NVIDIA's wheels: what they load by name
    while they run isn't known.
    """
    if any(folder in folders for folders in case.own.values()):
        return True
    if case.contract is None:
        return str(folder) in _SITE_FOLDERS
    majors = frozenset({case.contract.cuda})
    found = (one for soname in case.needed for one in case.candidates(soname, majors))
    return any(one.site_folder == str(folder) for one in found)


def _driver_findings(library: ScannedLibrary, elf: Elf, case: Case) -> Iterator[Finding]:
    """Functions of the driver that the oldest one of this CUDA major doesn't have."""
    if not any(is_from_driver(soname) for soname in elf.needed):
        return
    name = library.name
    cuda = case.named_cuda or min(case.majors[name], default=library.runtime_major)
    newer: dict[str, list[str]] = {}
    for function in elf.driver_functions:
        release = release_of_function(function)
        if release and _order(release) > (cuda or 0, 0):
            newer.setdefault(release, []).append(function)
    if not newer:
        return
    newest = max(newer, key=_order)
    functions = [one for release in sorted(newer, key=_order) for one in newer[release]]
    shown = ", ".join((*functions[-_SHOWN:], *(["…"] if len(functions) > _SHOWN else [])))
    least = oldest_driver(cuda)
    fact = (
        f"it needs the driver of CUDA {newest} ({shown}), but it is for CUDA {cuda}, whose "
        f"oldest driver is {least}"
        if least
        else f"it needs the driver of CUDA {newest} ({shown})"
    )
    severity = case.severity("warning" if least else "note")
    yield Finding(file=name, rule="driver", fact=fact, severity=severity)


def _abi_findings(name: str, elf: Elf, case: Case) -> Iterator[Finding]:
    """PyTorch's C++ interface in a wheel that says it serves several releases of it."""
    symbols = elf.torch_symbols
    if case.contract is None or not case.contract.is_stable or not symbols:
        return
    shown = ", ".join((*symbols[:_SHOWN], *(["…"] if len(symbols) > _SHOWN else [])))
    fact = f"it needs {plural(len(symbols), 'symbol')} outside PyTorch's stable ABI ({shown})"
    yield Finding(file=name, rule="framework ABI", fact=fact)


def _order(release: str) -> tuple[int, int]:
    major, minor = release.split(".")
    return int(major), int(minor)


def _arch_findings(case: Case) -> Iterator[Finding]:
    """What holds device code serves every arch of the recipe, and no other."""
    contract = case.contract
    if contract is None:
        return
    codes = device_codes(case)
    if not codes and (contract.archs or contract.ptx_archs):
        fact = f"no library contains device code, the target is for {_archs('sm', contract.archs)}"
        yield Finding(file=case.scan.file_name, rule="archs", fact=fact)
    for name, code in codes:
        yield from _faults_of_code(name, code, contract.archs, contract.ptx_archs)


def device_codes(case: Case) -> list[tuple[str, DeviceCode]]:
    """Each library with its device code; where none has any, all files with some as one.

    Of those files there is often one for each arch. What a recipe has copied in is NVIDIA's, with
    the archs that NVIDIA chose, and left out.
    """
    files = case.scan.device_files
    found = [
        (library.name, library.device_code)
        for library in case.scan.libraries
        if library.device_code
        and library.name not in files
        and not (case.contract and is_grafted(library.name))
    ]
    if found or not files:
        return found
    return [(case.scan.file_name, join_codes(files.values()))]


def _faults_of_code(
    name: str, code: DeviceCode, archs: tuple[str, ...], ptx_archs: tuple[str, ...]
) -> Iterator[Finding]:
    for kind, held, required in (("sm", code.sass, archs), ("compute", code.ptx, ptx_archs)):
        if held != required:
            fact = f"it contains {_archs(kind, held)}, the target requires {_archs(kind, required)}"
            yield Finding(file=name, rule="archs", fact=fact)


def _archs(kind: str, archs: tuple[str, ...]) -> str:
    return " ".join(f"{kind}_{arch}" for arch in archs) or f"no {kind}"
