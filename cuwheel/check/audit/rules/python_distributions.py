"""Rules for the names of distributions whose METADATA an import asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from packaging.utils import canonicalize_name

from cuwheel.base.formats.wheel.metadata import parse_requirement
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, Severity, finding
from cuwheel.check.audit.installed_projects import installed_by

# Functions that raise PackageNotFoundError (importlib.metadata) or DistributionNotFound.
QUERIES = frozenset(
    f"{module}.{name}"
    for module in ("importlib.metadata", "importlib_metadata")
    for name in ("version", "distribution", "metadata", "requires", "files")
) | {"pkg_resources.get_distribution", "pkg_resources.require"}
"""Their names, with their modules."""


class Query(NamedTuple):
    """A call of such a function that an import always runs.

    Attributes:
        member: with the call.
        name: of a distribution, as written.
    """

    member: str
    line: int
    name: str


def query_findings(queries: Iterable[Query], case: AuditCase) -> Iterator[AuditFinding]:
    """Yield queries for distributions that aren't installed with the wheel."""
    parsed = map(parse_requirement, dict.fromkeys(case.requires))
    optional = {canonicalize_name(each.name) for each in parsed if each} - case.required
    for query in queries if case.scan.metadata else ():
        required = parse_requirement(query.name)
        name = canonicalize_name(required.name) if required else ""
        if name and not _may_be_installed(name, case):
            fact = f"line {query.line} asks for the METADATA of {query.name}, "
            if name in optional:
                fact += "which only an extra or another system requires"
            else:
                fact += f"which no requirement installs: this project is {case.project}"
            severity: Severity = "warning" if name in optional else "error"
            yield finding(query.member, "Python code", fact, severity)


def _may_be_installed(name: str, case: AuditCase) -> bool:
    """Return True for the own project, for those that requirements bring, and for unknown ones.

    A project with the name of the wheel's own package would overwrite it, so nothing requires it.
    """
    eggs = (member.partition("/")[0].partition("-")[0] for member in case.scan.names)
    bundled = {egg.removesuffix(".egg-info") for egg in eggs if egg.endswith(".egg-info")}
    if name in {case.project, *case.assumed, *case.required, *map(canonicalize_name, bundled)}:
        return True
    installed = installed_by(case.required)
    if installed is not None:
        return name in installed
    return name not in {canonicalize_name(root) for root in case.code.roots}
