"""A wheel judged: every finding, and what a report states beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.audit.case import Case
from cuwheel.audit.contract import Contract
from cuwheel.audit.findings import SEVERITIES, Finding, worst_severity
from cuwheel.audit.rules.layout import layout_findings
from cuwheel.audit.rules.library import device_codes, library_findings
from cuwheel.audit.rules.metadata import metadata_findings
from cuwheel.audit.rules.supply import supply_findings
from cuwheel.audit.rules.symbols import symbol_findings
from cuwheel.audit.rules.wheel import wheel_findings
from cuwheel.audit.scan import WheelScan, scan_wheel
from cuwheel.audit.supply import Chain, Supply
from cuwheel.binaries.archs import sort_archs
from cuwheel.cuda.toolkits import oldest_driver
from cuwheel.model.link import mode_name

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.audit.findings import Severity
    from cuwheel.model.target import Target


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What the audit says of a wheel.

    Attributes:
        case: the wheel and what it was held to.
        findings: the worst first, else in the wheel's order.
        supplies: who supplies what.
        majors: the CUDA majors that its libraries work with.
        archs: compute capabilities of the machine code in it.
        ptx_archs: compute capabilities of the PTX in it.
        lto_archs: compute capabilities of the code for a link at run time in it.
        tile_archs: compute capabilities of the Tile IR in it.
        min_driver: the oldest Linux driver for each of `majors`, as far as it is known.
    """

    case: Case
    findings: tuple[Finding, ...]
    supplies: tuple[Supply, ...]
    majors: tuple[int, ...]
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    lto_archs: tuple[str, ...]
    tile_archs: tuple[str, ...]
    min_driver: tuple[tuple[int, str], ...]

    @property
    def verdict(self) -> Severity | None:
        """The severity of the worst finding; None where there is none."""
        return worst_severity(self.findings)


def judge(case: Case) -> AuditResult:
    """Hold a wheel to its contract, or to what any wheel has to keep."""
    chain = Chain(case=case)
    findings = [*wheel_findings(case), *metadata_findings(case), *layout_findings(case)]
    if case.is_read:
        findings += [*library_findings(case), *supply_findings(chain), *symbol_findings(case)]
    else:
        findings.append(_not_read(case))
    codes = [code for _, code in device_codes(case)]
    decided = {major for majors in case.majors.values() for major in majors}
    linked = {library.runtime_major for library, _ in case.host_libraries} - {None}
    named = {case.named_cuda} if case.named_cuda else set()
    majors = tuple(sorted(filter(None, decided or linked or named))) if case.is_read else ()
    return AuditResult(
        case=case,
        findings=tuple(
            sorted(dict.fromkeys(findings), key=lambda one: SEVERITIES.index(one.severity))
        ),
        supplies=chain.supplies if case.is_read else (),
        majors=majors,
        archs=sort_archs(arch for code in codes for arch in code.sass),
        ptx_archs=sort_archs(arch for code in codes for arch in code.ptx),
        lto_archs=sort_archs(arch for code in codes for arch in code.lto),
        tile_archs=sort_archs(arch for code in codes for arch in code.tile),
        min_driver=tuple((major, driver) for major in majors if (driver := oldest_driver(major))),
    )


def _not_read(case: Case) -> Finding:
    fact = (
        f"the tag is for {', '.join(case.platforms)}: its libraries weren't checked, only those "
        "for Linux with glibc are"
    )
    return Finding(file=case.scan.file_name, rule="platform tag", fact=fact, severity="note")


def unreadable(path: Path, why: str) -> AuditResult:
    """What is said of a file that can't be read as a wheel."""
    scan = WheelScan(
        file_name=path.name,
        sha256="",
        size=path.stat().st_size if path.exists() else 0,
        dist_info="",
        names=(),
        contents={},
        metadata="",
        tags_text="",
        libraries=(),
        leaks=(),
        archive_faults=(),
    )
    fact = f"it can't be read as a wheel: {why}"
    return AuditResult(
        case=Case(scan=scan, contract=None),
        findings=(Finding(file=path.name, rule="archive", fact=fact),),
        supplies=(),
        majors=(),
        archs=(),
        ptx_archs=(),
        lto_archs=(),
        tile_archs=(),
        min_driver=(),
    )


def audit_wheel(
    path: Path,
    *,
    target: Target | None = None,
    excludes: tuple[str, ...] = (),
    private_paths: tuple[str, ...] = (),
) -> AuditResult:
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
        python=None if recipe.python == "any" else target.python,
        links=recipe.link.components,
        has_driver=recipe.link.has_driver,
        mode=mode_name(target.mode),
        bundles=recipe.link.bundles,
        extra=target.extra,
        archs=sort_archs(target.archs),
        ptx_archs=sort_archs(target.ptx_archs),
        is_stable=target.is_stable,
        max_size=target.max_wheel_size,
    )
