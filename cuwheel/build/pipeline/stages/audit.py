"""Stage audit: the repaired wheel, read alone, against the target's contract."""

from __future__ import annotations

from cuwheel.base.errors import AuditError, UnsafeArchiveError
from cuwheel.base.system.quantities import plural
from cuwheel.build.recipe.contract import contract_of
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Audit, BuiltWheel, RepairedWheel
from cuwheel.check.audit.verdict import audit_wheel


def audit(job: Job) -> Audit:
    """Check the repaired wheel against the target's contract; print warnings.

    Raises:
        AuditError: it violates the contract; every error is listed.
    """
    target, workspace = job.target, job.workspace
    path = workspace.load("repair", RepairedWheel).path
    has_build = workspace.has("build")  # a published wheel's build may have left nothing
    private = workspace.load("build", BuiltWheel).private_paths if has_build else ()
    try:
        result = audit_wheel(path, contract=contract_of(target), private_paths=private)
    except UnsafeArchiveError as problem:
        raise _audit_error(path.name, [f"{problem.what}: {problem.why}"]) from problem
    if errors := [str(finding) for finding in result.findings if finding.severity == "error"]:
        raise _audit_error(path.name, errors)
    for finding in result.findings:
        if finding.severity == "warning":
            workspace.console.warn(str(finding))
    return Audit(
        sha256=result.case.scan.sha256,
        archs=result.code.sass,
        ptx_archs=result.code.ptx,
        suppliers=tuple(
            (supply.library, supply.soname, supply.supplier) for supply in result.supplies
        ),
        warnings=tuple(map(str, result.findings)),
    )


def _audit_error(name: str, lines: list[str]) -> AuditError:
    return AuditError(
        f"{name} violates its contract ({plural(len(lines), 'finding')})",
        why="\n".join(lines),
        fix="correct the recipe (`name`, `wheel_name`, `link`, `archs`, `max_wheel_size`, patches) "
        "or the build's flags",
    )
