"""The verdict on a wheel: its findings, and the facts of the report."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.check.audit.case import AuditCase, Contract
from cuwheel.check.audit.findings import (
    SEVERITIES,
    AuditFinding,
    Severity,
    finding,
    worst_severity,
)
from cuwheel.check.audit.rules.contradictions import claim_findings, conflict_findings
from cuwheel.check.audit.rules.library import device_codes, foreign_findings, library_findings
from cuwheel.check.audit.rules.loads import load_findings
from cuwheel.check.audit.rules.markers import marker_findings
from cuwheel.check.audit.rules.members import layout_findings, member_findings
from cuwheel.check.audit.rules.metadata import metadata_findings, name_findings
from cuwheel.check.audit.rules.python.code import python_findings
from cuwheel.check.audit.rules.supply import supply_findings
from cuwheel.check.audit.rules.symbols import symbol_findings
from cuwheel.check.audit.scan import WheelScan, join_codes, scan_wheel
from cuwheel.check.audit.supply import Chain, Supply
from cuwheel.check.audit.symbols import SymbolNeeds

# Of what libraries need: one cause in the wheel, as its requirements or the machine that built it,
# is behind the same words.
_OF_COPIES = ("platform tag", "needed library", "mixed CUDA majors", "framework ABI", "rpath")
# In a fact, what is alike in libraries that were built together: the releases of PyTorch without
# symbols, the tag; which symbols these are differs.
_CAUSE = re.compile(r", which (torch [\d.]+.* lacks?\b.*|\S+ doesn't guarantee)")
_SHOWN = 3  # files in one finding
_Rule = Callable[[AuditCase], Iterable[AuditFinding]]


@dataclass(frozen=True, kw_only=True)
class ReadParts:
    """The extent to which a wheel on a server was read.

    Attributes:
        received: bytes.
        size: of the wheel, bytes.
        is_all_code_known: everything that can hold device code was read from end to end.
    """

    received: int
    size: int
    is_all_code_known: bool


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """A judged wheel.

    Attributes:
        code: of all its libraries, or else of its device files.
        min_driver: the oldest Linux driver for each of `majors`, as far as it is known.
        torch: releases of PyTorch that have all symbols of its libraries; None: it uses none, or
            that isn't known.
        parts: of a wheel on a server that wasn't read whole: what isn't known is left out, and no
            rule was checked; None: it was read.
    """

    case: AuditCase
    findings: tuple[AuditFinding, ...]
    supplies: tuple[Supply, ...] = ()
    majors: tuple[int, ...] = ()
    code: DeviceCode = field(default_factory=DeviceCode)
    min_driver: tuple[tuple[int, str], ...] = ()
    torch: tuple[str, ...] | None = None
    parts: ReadParts | None = None

    @property
    def verdict(self) -> Severity | None:
        """The severity of the worst finding; None where there is none."""
        return worst_severity(self.findings)

    @property
    def codes(self) -> list[tuple[str, DeviceCode]]:
        """Each library with its device code; if none has any, all device files as one."""
        return device_codes(self.case)

    @property
    def archs(self) -> tuple[str, ...]:
        """Compute capabilities of the machine code."""
        return self.code.sass

    @property
    def ptx_archs(self) -> tuple[str, ...]:
        """Compute capabilities of the PTX."""
        return self.code.ptx


def judge(case: AuditCase) -> AuditResult:
    """Check a wheel against its contract, or against the rules for any wheel."""
    chain = Chain(case=case)
    rules: list[_Rule] = [name_findings, member_findings, metadata_findings, layout_findings]
    rules += [marker_findings, python_findings]
    rules += [claim_findings, lambda _: conflict_findings(chain)]
    if case.is_read:
        rules += [library_findings, lambda _: supply_findings(chain), symbol_findings]
        rules.append(lambda _: load_findings(chain))
    findings = [found for rule in rules for found in _applied(rule, case)]
    if not case.is_read:
        findings += foreign_findings(case)
        fact = (
            f"the tag is for {', '.join(case.platforms)}: its libraries weren't checked, only "
            "those for Linux with glibc are"
        )
        findings.append(finding(case.scan.file_name, "platform tag", fact, "note"))
    return replace(
        facts_of(case),
        findings=tuple(
            sorted(_merged(findings, case), key=lambda item: SEVERITIES.index(item.severity))
        ),
        supplies=chain.supplies if case.is_read else (),
    )


def _merged(findings: Iterable[AuditFinding], case: AuditCase) -> Iterator[AuditFinding]:
    """Yield findings, one for all libraries of a third-party wheel with the same fault."""
    groups: dict[tuple[str, ...], list[AuditFinding]] = {}
    for item in dict.fromkeys(findings):
        is_copied = item.rule in _OF_COPIES and not case.contract
        file = "" if is_copied else item.file
        cause = None if file else _CAUSE.search(item.fact)
        fact = cause[1] if cause else item.fact
        groups.setdefault((item.severity, item.rule, fact, file), []).append(item)
    for group in groups.values():
        first, *others = sorted(group, key=_newest_system)
        places = ", ".join(item.file for item in others[:_SHOWN])
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        fact = f"{first.fact}; the same in {places}{more}"
        yield replace(first, fact=fact) if others else first


def _newest_system(item: AuditFinding) -> int:
    """Return a key that puts the library first which needs the newest glibc."""
    release = re.search(r"; manylinux_2_(\d+)\w* does", item.fact)
    return -int(release[1]) if release else 0


def facts_of(case: AuditCase) -> AuditResult:
    """Return the facts of a wheel; no rule is checked, which takes most of an audit's time."""
    codes = (code for _, code in device_codes(case))
    return AuditResult(
        case=case,
        findings=(),
        majors=case.cuda,
        code=join_codes(codes),
        min_driver=case.drivers,
        torch=SymbolNeeds(case=case).loads_with() if case.is_read else None,
    )


def _applied(rule: _Rule, case: AuditCase) -> Iterator[AuditFinding]:
    """Yield the findings of a rule; where it fails, those before, and the failure."""
    try:
        yield from rule(case)
    except Exception as problem:  # noqa: BLE001 - the other rules' findings stay
        yield finding(case.scan.file_name, "not checked", internal_error(problem), "warning")


def internal_error(problem: Exception) -> str:
    """Return what to report of a fault of cuwheel's."""
    where = traceback.extract_tb(problem.__traceback__)[-1]
    text = f"{type(problem).__name__} in {where.name}: {problem}"
    return f"an internal error of cuwheel, please report it: {text}"


def unreadable(path: Path, why: str) -> AuditResult:
    """Return the result for a file that can't be read as a wheel."""
    scan = WheelScan(file_name=path.name, size=path.stat().st_size if path.exists() else 0)
    fact = f"it can't be read as a wheel: {why}"
    return AuditResult(
        case=AuditCase(scan=scan, contract=None),
        findings=(finding(path.name, "archive", fact),),
    )


def audit_wheel(
    path: Path,
    *,
    contract: Contract | None = None,
    excludes: tuple[str, ...] = (),
    private_paths: tuple[str, ...] = (),
) -> AuditResult:
    """Read and judge any wheel.

    Args:
        contract: of its target; None: the rules for any wheel.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        OSError: it can't be read.
    """
    scan = scan_wheel(path, private_paths=private_paths)
    return judge(AuditCase(scan=scan, contract=contract, excludes=excludes))


def read_wheel_facts(path: Path) -> AuditResult:
    """Read any wheel, without judging it; raises like `audit_wheel`."""
    return facts_of(AuditCase(scan=scan_wheel(path, private_paths=()), contract=None))
