"""Rules for requirements that don't go together with each other, or with the wheel's libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import parse_requirement
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import package_of
from cuwheel.check.audit.supply import Chain
from cuwheel.check.cuda.components import KNOWN_COMPONENTS, Component
from cuwheel.check.cuda.frameworks import extras_of, has_common_release, is_known

_FILE = "METADATA"
# `cupy-cuda13x`, `rmm-cu12`, `spconv-cu120`; NVIDIA's own wheels are known by their files.
_FOR_CUDA = re.compile(r"(?!nvidia-).+-cu(?:da)?(1\d)(?:\d|x)?$")


def conflict_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield requirements of which one overwrites, or breaks, what another installs."""
    yield from _overwriting_findings(chain.case)
    yield from _unlimited_findings(chain)
    yield from _cuda_findings(chain)


def _overwriting_findings(case: AuditCase) -> Iterator[AuditFinding]:
    """Yield two required projects with the same files."""
    owners: dict[str, str] = {}
    for project in sorted(_installed(case)):
        first = {owners[path]: path for path in sorted(_paths_of(project)) if path in owners}
        for other, path in first.items():
            fact = f"{other} and {project}, which are both required, install {path}: the one that "
            yield finding(_FILE, "metadata", f"{fact}is installed last overwrites the other")
        owners = {**dict.fromkeys(_paths_of(project), project), **owners}


def _installed(case: AuditCase) -> set[str]:
    """Return the required projects, and those that these bring in every allowed release."""
    sure = set(case.required)
    brought = [dep for dep in case.declared if not dep.extra]
    for by in {dep.by for dep in brought}:
        ours = [dep for dep in brought if dep.by == by]
        if len({dep.cuda for dep in ours if dep.cuda}) <= 1:
            sure |= {dep.distribution for dep in ours}
    return sure


@cache
def _paths_of(project: str) -> frozenset[str]:
    """Return the files of a wheel of NVIDIA's, or the package of a project with several builds."""
    package = package_of(project)
    own = (part for part in KNOWN_COMPONENTS if part.distribution == project)
    files = {f"{part.site_folder}/{name}" for part in own for name in part.sonames}
    return frozenset(files | ({f"{package}/"} if package else set()))


def _unlimited_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield requirements that allow the next CUDA, with another soname.

    A project with the CUDA in its name never has it, and where another requirement brings the
    library, that one decides.
    """
    case, done = chain.case, set[str]()
    for library, elf in case.host_libraries if not case.contract else ():
        for soname in elf.needed:
            part = chain.conditions.component(library, soname)
            if part is None or part.distribution in done or not _is_direct(part, case):
                continue
            done.add(part.distribution)
            if bound := _next_release(part):
                yield from _unlimited(part, bound, soname, case)


def _is_direct(part: Component, case: AuditCase) -> bool:
    brought = any(d.distribution == part.distribution != d.by for d in case.declared)
    return part.distribution in case.required and part.cuda is not None and not brought


def _next_release(part: Component) -> str:
    """Return the first release with other sonames, `14`; empty: it is another project's."""
    _, separator, bound = part.releases.partition("<")
    return bound if separator and not re.search(r"-cu\d+$", part.distribution) else ""


def _unlimited(part: Component, bound: str, soname: str, case: AuditCase) -> Iterator[AuditFinding]:
    parsed = [each for line in case.requires if (each := parse_requirement(line))]
    lines = [each for each in parsed if canonicalize_name(each.name) == part.distribution]
    allowed = [each.specifier for each in lines if "" in extras_of(each)]
    newer = SpecifierSet(f">={bound}")
    right = SpecifierSet(part.releases)
    # A bare name is no statement about releases.
    if allowed and all(
        len(each) and has_common_release(newer, each) and has_common_release(right, each)
        for each in allowed
    ):
        fact = f"{lines[0].name}{allowed[0]} also allows {bound} and later, for another CUDA: its "
        fact += f"library isn't {soname}, which the wheel needs: require <{bound}"
        yield finding(_FILE, "needed library", fact, "warning")


def _cuda_findings(chain: Chain) -> Iterator[AuditFinding]:
    """Yield requirements with another CUDA in their names than the libraries need."""
    case = chain.case
    needed = frozenset[int]().union(*case.majors.values())
    needed |= {lib.runtime_major for lib, _ in case.host_libraries if lib.runtime_major}
    is_known_cuda = len(needed) == 1 and not chain.conditions.has_alternatives
    for name in sorted(case.required):
        match = _FOR_CUDA.fullmatch(name)
        # One with known needs has its finding where these are checked.
        is_other = match and not (is_known(name) and "cupy" not in name)
        if match and is_other and is_known_cuda and int(match[1]) not in needed:
            fact = f"{name} is required, which is for CUDA {match[1]}, but the wheel's libraries "
            fact += f"are for CUDA {min(needed)}"
            severity: Severity = "error" if case.contract else "warning"
            yield finding(_FILE, "mixed CUDA majors", fact, severity)
