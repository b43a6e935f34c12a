"""Audit: read the finished wheel, and nothing else, and hold it to its contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.audit.verdict import audit_wheel
from cuwheel.errors import AuditError, UnsafeArchiveError
from cuwheel.system.quantities import plural
from cuwheel.workspace.records import Audit, BuiltWheel, RepairedWheel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.workspace.job import Job


def audit(job: Job) -> Audit:
    """Hold the repaired wheel to the target's contract.

    Findings that are warnings are printed and don't stop the wheel.

    Raises:
        AuditError: it breaks it; every breach is listed.
    """
    target, workspace = job.target, job.workspace
    path = workspace.load("repair", RepairedWheel).path
    private = workspace.load("build", BuiltWheel).private_paths
    try:
        found = audit_wheel(path, target=target, private_paths=private)
    except UnsafeArchiveError as problem:
        raise _refusal(path.name, [f"{problem.what}: {problem.why}"]) from problem
    if errors := [finding for finding in found.findings if finding.severity == "error"]:
        raise _refusal(path.name, errors)
    for finding in found.findings:
        if finding.severity == "warning":
            workspace.console.warn(str(finding))
    return Audit(
        sha256=found.case.scan.sha256,
        archs=found.archs,
        ptx_archs=found.ptx_archs,
        suppliers=tuple(
            (supply.library, supply.soname, supply.supplier) for supply in found.supplies
        ),
        warnings=tuple(str(finding) for finding in found.findings),
    )


def _refusal(name: str, findings: Iterable[object]) -> AuditError:
    lines = [str(finding) for finding in findings]
    return AuditError(
        f"{name} violates its contract ({plural(len(lines), 'finding')})",
        why="\n".join(lines),
        fix="correct the recipe (`name`, `wheel_name`, `link`, `archs`, `max_wheel_size`, patches) "
        "or the build's flags",
    )
