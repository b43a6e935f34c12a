"""Rules for what a wheel's libraries need: supplied, of one CUDA major, declared and used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.base.system.versions import version_key
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import SEVERITIES, AuditFinding, Severity, finding
from cuwheel.check.audit.scan import ScannedLibrary
from cuwheel.check.audit.supply import Chain, Fault
from cuwheel.check.audit.symbols import SymbolNeeds
from cuwheel.check.cuda.components import KNOWN_COMPONENTS
from cuwheel.check.cuda.frameworks import extras_of, has_common_release, preloads, torch_toolkit
from cuwheel.check.cuda.library_functions import release_with
from cuwheel.check.cuda.suppliers import (
    components_of,
    is_cuda_library,
    is_from_driver,
    is_grafted,
    name_before_graft,
    stem_of,
)

_SHOWN = 3  # names in one finding
_RELEASE = re.compile(r"_(\d+)_(\d+)$")  # `__nvJitLinkCreate_12_8`
_BUILD_CUDA = re.compile(r"/(usr/local/cuda|opt/cuda|opt/conda|home|root|tmp)[^/]*/")
_OPENMP = frozenset({"libgomp", "libiomp5", "libomp"})
_NUMBER = re.compile(r"\d+(?=\.so$)")  # of alternatives, `libx_core7.so`
_SEVERAL = 2  # CUDA majors in one process


def supply_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield findings about the suppliers of needed libraries."""
    yield from _needed_findings(chain)
    yield from _major_findings(chain)
    yield from _runtime_findings(chain.case)
    yield from _openmp_findings(chain.case)
    yield from _unused_findings(chain)
    yield from _opened_findings(chain.case)
    yield from _release_findings(chain)
    yield from _exclude_findings(chain.case)


def _needed_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield one finding for all needs of a library with the same fault."""
    same: dict[tuple[str, Fault], list[str]] = {}
    direct = {library.name for library, _ in chain.case.host_libraries}
    lacking = {s.supplier for s in chain.supplies if s.faults and s.library in direct}
    for supply in chain.supplies:
        if supply.library not in direct and supply.supplier in lacking:
            continue  # a library of the wheel needs it too, which has the finding
        for fault in supply.faults:
            same.setdefault((supply.library, fault), []).append(supply.soname)
    names, needs = _alternatives(chain.case), dict[tuple[str, Fault], set[tuple[str, ...]]]()
    for (file, fault), sonames in same.items():
        needs.setdefault((_NUMBER.sub("", file), fault), set()).add((*sonames,))
    groups: dict[Fault, list[str]] = {}
    for file, fault in same:
        if file in names and len(needs[_NUMBER.sub("", file), fault]) > 1:
            groups.setdefault(fault, []).append(file)
    firsts = {
        (file, fault): sonames
        for (file, fault), sonames in same.items()
        if file not in groups.get(fault, [])[1:]
    }
    for parts in _causes(firsts) if not chain.case.contract else [[key] for key in firsts]:
        item = _joined(parts, firsts)
        if len(group := groups.get(parts[0][1], [])) > 1 and item.file in group:
            fact = f"; code loads it or one of {len(group) - 1} others for other releases of these"
            item = replace(item, fact=item.fact + fact)
        yield item


def _joined(
    parts: Sequence[tuple[str, Fault]], needs: Mapping[tuple[str, Fault], Sequence[str]]
) -> AuditFinding:
    """Return one finding for needs with the same cause, at the library that it hits most."""
    ordered = sorted(parts, key=lambda part: SEVERITIES.index(part[1].severity))
    first, *others = dict.fromkeys(file for file, _ in ordered)
    worst = ordered[0][1].severity
    needed: dict[Fault, dict[str, None]] = {}
    own: dict[Fault, dict[str, None]] = {}
    for file, fault in ordered:
        for table in (needed, own) if file == first else (needed,):
            sonames = table.setdefault(fault._replace(severity=worst), {})
            sonames.update(dict.fromkeys(needs[file, fault]))
    facts = [_fact(fault, list(sonames)) for fault, sonames in needed.items()]
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        start = "the same in" if own == needed else "some of these are needed by"
        facts.append(f"{start} {', '.join(others[:_SHOWN])}{more}")
    return finding(first, "needed library", "; ".join(facts), worst)


def _fact(fault: Fault, sonames: Sequence[str]) -> str:
    verb = fault.verbs if len(sonames) > 1 else fault.verb
    return f"{', '.join(sonames)} {verb} {fault.rest}".rstrip()


def _causes(
    needs: Mapping[tuple[str, Fault], Sequence[str]],
) -> Iterable[list[tuple[str, Fault]]]:
    """Return needs by what has to be mended: together, or else of the same library."""
    groups: dict[tuple[str, ...], list[tuple[str, Fault]]] = {}
    for (file, fault), sonames in needs.items():
        kind = "note" if fault.severity == "note" else ""  # one that decides on a condition
        key = (kind, fault.cause or f"{fault.verb} {fault.rest}")
        place: tuple[str, ...] = () if fault.cause else (sonames[0],)
        for other, parts in groups.items() if not fault.cause else ():
            if other[:2] == key and any(set(sonames) & set(needs[part]) for part in parts):
                place = other[2:]
        groups.setdefault((*key, *place), []).append((file, fault))
    return groups.values()


def _alternatives(case: AuditCase) -> frozenset[str]:
    """Return libraries of which code loads one: their names differ only in a number.

    Python code makes the names in a loop, `libx{number}`, and has none of them whole.
    """
    stems: dict[str, list[str]] = {}
    for library, _ in case.host_libraries if case.scan.loaders else ():
        stems.setdefault(_NUMBER.sub("", library.name), []).append(library.name)
    if not case.scan.sources.keys() >= {*case.scan.loaders}:
        return frozenset()  # a large module, which wasn't read, may have the names
    text = b"\n".join(map(case.scan.sources.__getitem__, case.scan.loaders))
    names = (name for same in stems.values() if len(same) > 1 for name in same)
    files = ((name, PurePosixPath(name).name.partition(".so")[0].encode()) for name in names)
    return frozenset(name for name, file in files if file not in text)


def _major_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield libraries with two CUDA majors, or with another than the name's or framework's."""
    case, decided = chain.case, chain.conditions.decided_majors
    if len(set(decided.values())) > 1 and not chain.conditions.has_alternatives:
        first = {major: name for name, major in decided.items()}
        names = " and ".join(f"CUDA {n} ({PurePosixPath(first[n]).name})" for n in sorted(first))
        fact = f"its modules are for different CUDA releases: {names}"
        yield finding(case.scan.file_name, "mixed CUDA majors", fact, "warning")
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
            yield from _framework_findings(chain, library, major)
        elif not majors and library.cudart and case.name_cuda not in {None, library.runtime_major}:
            fact = (
                f"the runtime of CUDA {library.cudart} is linked into it, but the wheel's name "
                f"says CUDA {case.name_cuda}"
            )
            severity: Severity = "note" if case.is_supplier else "error"
            yield finding(library.name, "mixed CUDA majors", fact, severity)


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
    chain: Chain, library: ScannedLibrary, major: int
) -> Iterator[AuditFinding]:
    case, own = chain.case, [s for s in chain.supplies if s.library == library.name]
    names = dict.fromkeys(dep.by for dep in case.declared if dep.cuda and not dep.extra)
    for by in filter(preloads, names):
        brought = sorted({dep.cuda for dep in case.declared if dep.by == by and dep.cuda})
        if by == "torch" and (loaded := _torch_majors(library, case)):
            brought = sorted(loaded.intersection(brought))
        if set(brought) <= {major}:
            continue
        kinds = " or ".join(map(str, brought))
        fact = f"it is for CUDA {major}, but the {by} that the wheel requires installs CUDA {kinds}"
        severity: Severity = "warning" if major in brought else "error"
        is_shared = any(by in (s.loader, s.supplier.partition(" ")[0]) for s in own)
        severity = "note" if severity == "warning" and not is_shared else severity
        yield finding(library.name, "mixed CUDA majors", fact, severity)


def _torch_majors(library: ScannedLibrary, case: AuditCase) -> set[int]:
    """Return the CUDA majors of the allowed releases of PyTorch with a library's symbols."""
    needs = SymbolNeeds(case=case)
    fit = needs.torch_fit(library) if needs.is_torch_judged else None
    fitting = fit.fitting if fit else needs.loads_with() or ()  # all of the wheel's are loaded
    allowed = needs.torch_requirement or SpecifierSet()
    releases = (".".join(release.split(".")[:2]) for release in fitting)
    known = (r for r in releases if has_common_release(SpecifierSet(f"=={r}.*"), allowed))
    return {int(toolkit.partition(".")[0]) for r in known if (toolkit := torch_toolkit(r))}


def _runtime_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield a runtime that is linked into one library, where another needs the shared one."""
    libraries = [library for library, _ in case.host_libraries if library.cudart]
    linked = [library for library in libraries if not is_grafted(library.name)]
    if linked and any(stem_of(soname) == "libcudart" for soname in case.needed):
        fact = "CUDA's runtime is linked into it statically, and other libraries of the wheel need "
        fact += "the shared one: each has its own state, streams of the one are none of the other"
        yield finding(linked[0].name, "mixed CUDA majors", fact, "note")


def _openmp_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield two OpenMP runtimes of the wheel that its libraries need."""
    needed = case.needed & case.own.keys()
    runtimes = sorted(name for name in needed if stem_of(name_before_graft(name)) in _OPENMP)
    if len(set(map(stem_of, map(name_before_graft, runtimes)))) > 1:
        fact = f"its libraries load several OpenMP runtimes, {' and '.join(runtimes)}: each starts "
        fact += "its own threads, and Intel's stops a process that has two"
        yield finding(case.scan.file_name, "grafted library", fact, "warning")


def _unused_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield required wheels of NVIDIA that no library needs."""
    case = chain.case
    used = {supply.supplier.split(" ")[0] for supply in chain.supplies}
    opened = {stem_of(name) for library, _ in case.host_libraries for name in library.opened}
    for part in KNOWN_COMPONENTS:
        stems = set(map(stem_of, part.sonames))
        if not stems.isdisjoint(opened) or any(map(case.is_opened, {*stems, *part.sonames})):
            used.add(part.distribution)
    known = {part.distribution for part in KNOWN_COMPONENTS if part.cuda is not None}
    for name in sorted(case.required & known):
        if name not in used and not case.is_supplier:
            fact = f"{name} is required, but no library of the wheel needs anything from it"
            severity: Severity = "warning" if case.contract else "note"
            if other := _of_other_major(name, used & case.required):
                fact = (
                    f"{name} is required too, which nothing needs: the libraries are for another "
                )
                fact += f"CUDA, as {other} is"
                severity = "warning"
            yield finding("METADATA", "unused requirement", fact, severity)


def _of_other_major(distribution: str, used: Iterable[str]) -> str:
    """Return the used wheel with the same library for another CUDA major, or empty."""
    parts = {part.distribution: part for part in KNOWN_COMPONENTS}
    own = parts[distribution]
    same = (name for name in sorted(used) if name in parts and parts[name].name == own.name)
    return next((name for name in same if parts[name].cuda != own.cuda), "")


def _opened_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield libraries of CUDA that are opened by name, and that nothing installs."""
    if case.is_supplier:
        return
    installed = {dep.distribution for dep in case.dependencies}
    known = {*case.own, *case.needed}
    for library, _ in case.host_libraries:
        paths = [name for name in library.opened if _BUILD_CUDA.match(name)]
        if paths:
            fact = f"it opens {', '.join(paths[:_SHOWN])}, a path of the build machine"
            yield finding(library.name, "needed library", fact, "note")
        found = {stem_of(name) for name in known}
        found |= {
            stem_of(name)
            for name in library.opened
            if _is_installed(name, installed) or case.is_opened(name)
        }
        missing = [name for name in library.opened if is_cuda_library(name)]
        missing = [name for name in missing if stem_of(name) not in found]
        missing = [name for name in missing if not is_from_driver(name) and name != "libcuda.so"]
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            fact = f"it opens {', '.join(missing[:_SHOWN])}{more} by name, which no requirement "
            fact += "installs under that name"
            yield finding(library.name, "needed library", fact, "note")


def _is_installed(soname: str, installed: set[str]) -> bool:
    return any(part.distribution in installed for part in components_of(soname))


def _release_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield requirements for releases of NVIDIA's libraries that lack a needed function."""
    case = chain.case
    for library, elf in case.host_libraries:
        nccl = [name for name in library.undefined if name.startswith("nccl")]
        of_runtime = {name: release_with(name) for name in elf.runtime_functions}
        for project, functions in (
            ("nvidia-nvjitlink.*", elf.nvjitlink_functions),
            ("nvidia-cuda-runtime-cu12", [n for n, has in of_runtime.items() if has < "13"]),
            ("nvidia-cuda-runtime", [n for n, has in of_runtime.items() if has >= "13"]),
            ("nvidia-nccl.*", nccl),
        ):
            releases = {name: _release_of(name) for name in functions}
            newest = max(functions, key=lambda name: version_key(releases[name]), default="")
            if release := releases.get(newest):
                yield from _older_findings(library.name, newest, release, project, case)


def _release_of(function: str) -> str:
    match = _RELEASE.search(function)
    return f"{match[1]}.{match[2]}" if match else release_with(function)


def _older_findings(
    library: str, function: str, release: str, pattern: str, case: AuditCase
) -> Iterator[AuditFinding]:
    for line in case.requires:
        project = project_of(line)
        is_pinned = any(d.distribution == project != d.by for d in case.declared)
        if not re.fullmatch(pattern, project) or is_pinned:
            continue
        allowed = Requirement(line).specifier
        older = SpecifierSet(f">={release.partition('.')[0]},<{release}")
        if extras_of(Requirement(line), case.markers) and has_common_release(older, allowed):
            fact = f"it needs {function}, which {project} has from {release} on, but "
            fact += f"{project}{allowed} is required"
            # A bare name brings the newest release, unless an environment has an older one.
            severity: Severity = "warning" if len(allowed) else "note"
            yield finding(library, "needed library", fact, severity)


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
