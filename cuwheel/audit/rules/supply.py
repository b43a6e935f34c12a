"""Rules for what a wheel's libraries need: supplied, of one CUDA major, declared and used."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.audit.findings import Finding
from cuwheel.cuda.components import KNOWN_COMPONENTS
from cuwheel.cuda.frameworks import preloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.audit.case import Case
    from cuwheel.audit.findings import Severity
    from cuwheel.audit.scan import ScannedLibrary
    from cuwheel.audit.supply import Chain, Fault

_SEVERAL = 2  # CUDA majors in one process


def supply_findings(chain: Chain) -> Iterator[Finding]:
    """Breaches of who supplies what."""
    yield from _needed_findings(chain)
    yield from _major_findings(chain)
    yield from _unused_findings(chain)
    yield from _exclude_findings(chain.case)


def _needed_findings(chain: Chain) -> Iterator[Finding]:
    """One finding for all that the same is wrong with."""
    same: dict[tuple[str, Fault], list[str]] = {}
    for supply in chain.supplies:
        for fault in supply.faults:
            same.setdefault((supply.library, fault), []).append(supply.soname)
    for (file, fault), sonames in same.items():
        text = fault.facts if len(sonames) > 1 else fault.fact
        fact = text.replace("{}", ", ".join(sonames))
        yield Finding(file=file, rule="needed library", fact=fact, severity=fault.severity)


def _major_findings(chain: Chain) -> Iterator[Finding]:
    """A library with two CUDA majors behind it, or with another than the name or framework says."""
    case = chain.case
    for library, _ in case.host_libraries:
        majors = case.majors[library.name]
        if len(majors) > 1:
            names = " and ".join(f"CUDA {major}" for major in sorted(majors))
            fact = f"it needs libraries of {names}"
            yield Finding(file=library.name, rule="mixed CUDA majors", fact=fact)
            continue
        yield from _brought_findings(chain, library)
        if len(majors) == 1 and not chain.conditions.has_alternatives:
            major = next(iter(majors))
            if case.name_cuda not in {None, major}:
                fact = f"it needs CUDA {major}, but the wheel's name says CUDA {case.name_cuda}"
                yield Finding(file=library.name, rule="mixed CUDA majors", fact=fact)
            yield from _framework_findings(case, library, major)
        elif not majors:
            yield from _runtime_findings(case, library)


def _runtime_findings(case: Case, library: ScannedLibrary) -> Iterator[Finding]:
    """A runtime that is linked in, of another CUDA than the name says."""
    if library.cudart and case.name_cuda not in {None, library.runtime_major}:
        fact = (
            f"the runtime of CUDA {library.cudart} is linked into it, but the wheel's name says "
            f"CUDA {case.name_cuda}"
        )
        yield Finding(file=library.name, rule="mixed CUDA majors", fact=fact)


def _brought_findings(chain: Chain, library: ScannedLibrary) -> Iterator[Finding]:
    """A library that loads two CUDA majors through others of the wheel."""
    conditions, graph = chain.conditions, chain.conditions.loader_graph
    brought = conditions.majors_brought_by(library)
    if len(brought) < _SEVERAL:
        return
    is_told_of_another = any(
        len(conditions.majors_brought_by(one)) >= _SEVERAL and library not in graph.brought_by(one)
        for one in graph.brought_by(library)
    )
    if not is_told_of_another:
        names = " and ".join(
            f"CUDA {major} ({PurePosixPath(name).name})" for major, name in sorted(brought.items())
        )
        fact = (
            "it and the libraries of the wheel that it needs are for different CUDA releases: "
            f"{names}"
        )
        yield Finding(file=library.name, rule="mixed CUDA majors", fact=fact)


def _framework_findings(case: Case, library: ScannedLibrary, major: int) -> Iterator[Finding]:
    for by in dict.fromkeys(one.by for one in case.declared if one.cuda and not one.extra):
        brought = {one.cuda for one in case.declared if one.by == by and one.cuda}
        others = sorted(other for other in brought if other and other != major)
        if not others or not preloads(by):
            continue
        kinds = " or ".join(str(other) for other in sorted(brought))
        fact = f"it is for CUDA {major}, but the {by} that the wheel requires installs CUDA {kinds}"
        severity: Severity = "warning" if major in brought else "error"
        yield Finding(file=library.name, rule="mixed CUDA majors", fact=fact, severity=severity)


def _unused_findings(chain: Chain) -> Iterator[Finding]:
    """Requirements on NVIDIA's wheels of which no library needs anything."""
    case = chain.case
    used = {supply.supplier.split(" ")[0] for supply in chain.supplies}
    known = {one.distribution for one in KNOWN_COMPONENTS if one.cuda is not None}
    for name in sorted(case.required & known):
        if name not in used and not case.is_supplier:
            fact = f"{name} is required, but no library of the wheel needs anything from it"
            severity: Severity = "warning" if case.contract else "note"
            yield Finding(file="METADATA", rule="unused requirement", fact=fact, severity=severity)


def _exclude_findings(case: Case) -> Iterator[Finding]:
    for pattern in case.excludes:
        if any(fnmatchcase(soname, pattern) for soname in case.needed):
            continue
        near = sorted(
            soname for soname in case.needed if soname.startswith(pattern.split(".so")[0])
        )
        hint = f"; it needs {', '.join(near)}" if near else ""
        fact = f"--exclude {pattern} matches no library that it needs{hint}"
        yield Finding(file=case.scan.file_name, rule="dead exclude", fact=fact, severity="warning")
