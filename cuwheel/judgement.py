"""A wheel judged: every finding, and what the reader of a report wants to know beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.contract import Case
from cuwheel.fatbin import sort_archs
from cuwheel.findings import SEVERITIES, Finding, worst
from cuwheel.libraryrules import device_codes, library_findings
from cuwheel.supply import Chain, Supply
from cuwheel.supplyrules import supply_findings
from cuwheel.toolkits import oldest_driver
from cuwheel.wheelrules import wheel_findings
from cuwheel.wheelscan import WheelScan

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.findings import Severity


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the audit says of a wheel.

    Attributes:
        case: the wheel and what it was held to.
        findings: the worst first, else in the wheel's order.
        supplies: who supplies what.
        majors: the CUDA majors that its libraries work with.
        archs: compute capabilities of the machine code in it.
        ptx_archs: compute capabilities of the PTX in it.
        min_driver: the oldest Linux driver for each of `majors`, as far as it is known.
    """

    case: Case
    findings: tuple[Finding, ...]
    supplies: tuple[Supply, ...]
    majors: tuple[int, ...]
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    min_driver: tuple[tuple[int, str], ...]

    @property
    def verdict(self) -> Severity | None:
        """The severity of the worst finding; None where there is none."""
        return worst(self.findings)


def judge(case: Case) -> Judgement:
    """Hold a wheel to its contract, or to what any wheel has to keep."""
    chain = Chain(case=case)
    findings = [*wheel_findings(case), *library_findings(case), *supply_findings(chain)]
    codes = [code for _, code in device_codes(case)]
    decided = {major for majors in case.majors.values() for major in majors}
    named = {case.named_cuda} if case.named_cuda else set()
    majors = tuple(sorted(decided or named))
    return Judgement(
        case=case,
        findings=tuple(sorted(dict.fromkeys(findings), key=_rank)),
        supplies=chain.supplies,
        majors=majors,
        archs=sort_archs(arch for code in codes for arch in code.sass),
        ptx_archs=sort_archs(arch for code in codes for arch in code.ptx),
        min_driver=tuple((major, driver) for major in majors if (driver := oldest_driver(major))),
    )


def unreadable(path: Path, why: str) -> Judgement:
    """What is said of a file that can't be read as a wheel."""
    scan = WheelScan(
        file_name=path.name,
        sha256="",
        size=path.stat().st_size if path.exists() else 0,
        dist_info="",
        names=(),
        metadata="",
        tags_text="",
        libraries=(),
        leaks=(),
        archive_faults=(),
    )
    fact = f"it can't be read as a wheel: {why}"
    return Judgement(
        case=Case(scan=scan, contract=None),
        findings=(Finding(file=path.name, rule="archive", fact=fact),),
        supplies=(),
        majors=(),
        archs=(),
        ptx_archs=(),
        min_driver=(),
    )


def _rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)
