"""Audit: read the finished wheel, and nothing else, and hold it to its contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.artefacts import Audit, BuiltWheel, RepairedWheel
from cuwheel.contract import Case, Contract
from cuwheel.errors import AuditError, UnsafeArchiveError
from cuwheel.fatbin import sort_archs
from cuwheel.judgement import Judgement, judge
from cuwheel.recipe import mode_name
from cuwheel.wheelscan import scan_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.target import Target
    from cuwheel.workspace import Workspace


def audit(target: Target, space: Workspace) -> Audit:
    """Hold the repaired wheel to the target's contract.

    What is only worth a warning is told and doesn't stop the wheel.

    Raises:
        AuditError: it breaks it; every breach is listed.
    """
    path = space.load("repair", RepairedWheel).path
    private = space.load("build", BuiltWheel).private_paths
    try:
        found = audit_wheel(path, target=target, private_paths=private)
    except UnsafeArchiveError as problem:
        raise _refusal(path.name, [f"{problem.what}: {problem.why}"]) from problem
    if errors := [finding for finding in found.findings if finding.severity == "error"]:
        raise _refusal(path.name, errors)
    for finding in found.findings:
        if finding.severity == "warning":
            space.console.warn(str(finding))
    return Audit(
        sha256=found.case.scan.sha256,
        archs=found.archs,
        ptx_archs=found.ptx_archs,
        suppliers=tuple(
            (supply.library, supply.soname, supply.supplier) for supply in found.supplies
        ),
        warnings=tuple(str(finding) for finding in found.findings),
    )


def audit_wheel(
    path: Path,
    *,
    target: Target | None = None,
    excludes: tuple[str, ...] = (),
    private_paths: tuple[str, ...] = (),
) -> Judgement:
    """Read a wheel, whoever made it, and judge it.

    Args:
        path: the wheel.
        target: whose contract it is held to; None: to what any wheel has to keep.
        excludes: patterns that its maker gave to auditwheel.
        private_paths: folders of the build machine whose names must not be in it.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        OSError: it can't be read.
    """
    scan = scan_wheel(path, private_paths=private_paths)
    contract = _contract(target) if target else None
    return judge(Case(scan=scan, contract=contract, excludes=excludes))


def _contract(target: Target) -> Contract:
    recipe = target.recipe
    return Contract(
        project=canonicalize_name(target.project),
        release=None if target.source_override else recipe.version,
        local_version=target.local_version,
        cuda=target.toolkit.major,
        python=target.python if recipe.python == "each" else None,
        links=recipe.link.components,
        mode=mode_name(target.mode),
        extra=target.extra,
        archs=sort_archs(target.archs),
        ptx_archs=sort_archs(target.ptx_archs),
        max_size=target.max_wheel_size,
    )


def _refusal(name: str, findings: Iterable[object]) -> AuditError:
    lines = [str(finding) for finding in findings]
    return AuditError(
        f"{name} breaks its contract ({len(lines)} finding{'s'[: len(lines) > 1]})",
        why="\n".join(lines),
        fix="correct the recipe (`name`, `wheel_name`, `link`, `archs`, `max_wheel_size`, patches) "
        "or the build's flags",
    )
