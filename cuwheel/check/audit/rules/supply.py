"""Rules for what a wheel's libraries need: supplied, of one CUDA major, declared and used."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.audit.supply import Chain, Fault
from cuwheel.check.cuda.components import KNOWN_COMPONENTS
from cuwheel.check.cuda.frameworks import preloads

_SEVERAL = 2  # CUDA majors in one process


def supply_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield findings about the suppliers of needed libraries."""
    yield from _needed_findings(chain)
    yield from _major_findings(chain)
    yield from _unused_findings(chain)
    yield from _exclude_findings(chain.case)


def _needed_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield one finding for all needs of a library with the same fault."""
    same: dict[tuple[str, Fault], list[str]] = {}
    for supply in chain.supplies:
        for fault in supply.faults:
            same.setdefault((supply.library, fault), []).append(supply.soname)
    for (file, fault), sonames in same.items():
        verb = fault.verbs if len(sonames) > 1 else fault.verb
        fact = f"{', '.join(sonames)} {verb} {fault.rest}".rstrip()
        yield finding(file, "needed library", fact, fault.severity)


def _major_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield libraries with two CUDA majors, or with another than the name's or framework's."""
    case = chain.case
    for library, _ in case.host_libraries:
        majors = case.majors[library.name]
        if len(majors) > 1:
            names = " and ".join(f"CUDA {major}" for major in sorted(majors))
            fact = f"it needs libraries of {names}"
            yield finding(library.name, "mixed CUDA majors", fact)
            continue
        yield from _brought_findings(chain, library)
        if len(majors) == 1 and not chain.conditions.has_alternatives:
            major = next(iter(majors))
            if case.name_cuda not in {None, major}:
                fact = f"it needs CUDA {major}, but the wheel's name says CUDA {case.name_cuda}"
                yield finding(library.name, "mixed CUDA majors", fact)
            yield from _framework_findings(case, library, major)
        elif not majors and library.cudart and case.name_cuda not in {None, library.runtime_major}:
            fact = (
                f"the runtime of CUDA {library.cudart} is linked into it, but the wheel's name "
                f"says CUDA {case.name_cuda}"
            )
            yield finding(library.name, "mixed CUDA majors", fact)


def _brought_findings(chain: Chain, library: ScannedLibrary) -> Iterator[AuditFinding]:
    """Yield a library that loads two CUDA majors through others of the wheel."""
    conditions, graph = chain.conditions, chain.case.loader_graph
    brought = conditions.majors_brought_by(library.name)
    if len(brought) < _SEVERAL:
        return
    # The finding is for the innermost library with both.
    is_reported = any(
        len(conditions.majors_brought_by(other)) >= _SEVERAL
        and library.name not in graph.loaded_by(other)
        for other in graph.loaded_by(library.name)
    )
    if not is_reported:
        names = " and ".join(
            f"CUDA {major} ({PurePosixPath(name).name})" for major, name in sorted(brought.items())
        )
        fact = (
            "it and the libraries of the wheel that it needs are for different CUDA releases: "
            f"{names}"
        )
        yield finding(library.name, "mixed CUDA majors", fact)


def _framework_findings(
    case: AuditCase, library: ScannedLibrary, major: int
) -> Iterator[AuditFinding]:
    names = dict.fromkeys(dep.by for dep in case.declared if dep.cuda and not dep.extra)
    for by in filter(preloads, names):
        brought = sorted({dep.cuda for dep in case.declared if dep.by == by and dep.cuda})
        if set(brought) <= {major}:
            continue
        kinds = " or ".join(map(str, brought))
        fact = f"it is for CUDA {major}, but the {by} that the wheel requires installs CUDA {kinds}"
        severity: Severity = "warning" if major in brought else "error"
        yield finding(library.name, "mixed CUDA majors", fact, severity)


def _unused_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield required wheels of NVIDIA that no library needs."""
    case = chain.case
    used = {supply.supplier.split(" ")[0] for supply in chain.supplies}
    known = {part.distribution for part in KNOWN_COMPONENTS if part.cuda is not None}
    for name in sorted(case.required & known):
        if name not in used and not case.is_supplier:
            fact = f"{name} is required, but no library of the wheel needs anything from it"
            severity: Severity = "warning" if case.contract else "note"
            yield finding("METADATA", "unused requirement", fact, severity)


def _exclude_findings(case: AuditCase) -> Iterator[AuditFinding]:
    for pattern in case.excludes:
        if any(fnmatchcase(soname, pattern) for soname in case.needed):
            continue
        near = sorted(
            soname for soname in case.needed if soname.startswith(pattern.split(".so")[0])
        )
        hint = f"; it needs {', '.join(near)}" if near else ""
        fact = f"--exclude {pattern} matches no library that it needs{hint}"
        yield finding(case.scan.file_name, "dead exclude", fact, "warning")
