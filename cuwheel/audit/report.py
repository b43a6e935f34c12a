"""A judgement as text for people and as data for machines."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import rich.console
import rich.filesize
import rich.markup
import rich.padding
import rich.table
import rich.text

from cuwheel.audit.findings import SEVERITIES
from cuwheel.audit.scan import join_codes
from cuwheel.binaries.archs import DeviceCode, describe_code
from cuwheel.system.output.documents import Schema
from cuwheel.system.output.terminal import one_line
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.audit.findings import Finding, Severity
    from cuwheel.audit.scan import ScannedLibrary, WheelScan
    from cuwheel.audit.supply import Supply
    from cuwheel.audit.verdict import AuditResult
    from cuwheel.system.console import Console


_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "dim"}
# Kinds of findings that are shown of one rule; a package may have hundreds of libraries.
_SHOWN: dict[Severity, int] = {"error": 20, "warning": 20, "note": 4}
# What differs between facts of one kind: versions and build numbers, in names and in paths.
_NUMBER = re.compile(r"sha256=[\w-]+|\d+(\.\d+)*")


def print_result(result: AuditResult, terminal: rich.console.Console, console: Console) -> None:
    """Print a wheel's facts, who supplies what, and the findings, the worst first.

    Args:
        result: of the wheel.
        terminal: where to.
        console: says how much: where it is quiet, no more than what is wrong.
    """
    if not console.is_quiet:
        _print_facts(result, terminal)
    shown = [one for one in result.findings if not (console.is_quiet and one.severity == "note")]
    _print_findings(shown, terminal, is_verbose=console.is_verbose)
    if not console.is_quiet:
        terminal.print()
    terminal.print(_verdict(result), markup=False, soft_wrap=True)


def _print_facts(result: AuditResult, terminal: rich.console.Console) -> None:
    scan = result.case.scan
    terminal.rule(f"[bold]{rich.markup.escape(one_line(scan.file_name))}[/]", align="left")
    if scan.dist_info:  # else it can't be read, and there is nothing to print
        terminal.print(_facts(result))
    if table := _supply_table(result.supplies):
        terminal.print()
        terminal.print(table)


def print_verdicts(results: Iterable[AuditResult], terminal: rich.console.Console) -> None:
    """Print one line for each wheel, for those who named many."""
    terminal.rule("[bold]all wheels[/]", align="left")
    for result in results:
        terminal.print(_verdict(result), markup=False, soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class DeviceFile:
    """A file with device code alone, beside the libraries.

    Attributes:
        file: in the wheel.
        archs: compute capabilities of its machine code.
        ptx_archs: compute capabilities of its PTX.
        lto_archs: compute capabilities of its code for a link at run time.
        tile_archs: compute capabilities of its Tile IR.
    """

    file: str
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    lto_archs: tuple[str, ...]
    tile_archs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AuditedLibrary(DeviceFile):
    """A shared library of the wheel.

    Attributes:
        file: in the wheel.
        archs: compute capabilities of its machine code.
        ptx_archs: compute capabilities of its PTX.
        lto_archs: compute capabilities of its code for a link at run time.
        tile_archs: compute capabilities of its Tile IR.
        linked_runtime: release of the CUDA runtime that is linked into it; null: none is.
        needs: sonames of `DT_NEEDED`.
        rpath: folders of `DT_RPATH`.
        runpath: folders of `DT_RUNPATH`.
    """

    linked_runtime: str | None
    needs: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SuppliedLibrary:
    """Who supplies a library that another one needs.

    Attributes:
        library: that needs it, in the wheel.
        needs: soname of what it needs.
        supplier: who has it.
        condition: under which that is so; empty: it always is.
    """

    library: str
    needs: str
    supplier: str
    condition: str


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """Something that is wrong with a wheel, or good to know.

    Attributes:
        severity: how bad it is.
        rule: that it breaks, `needed library`.
        file: in the wheel; or the wheel itself.
        fact: what was found.
        anchor: where to read on, `TROUBLESHOOTING.md#audit-needed-library`.
    """

    severity: Severity
    rule: str
    file: str
    fact: str
    anchor: str


@dataclass(frozen=True, kw_only=True)
class AuditedWheel:
    """What the audit says of one wheel.

    Attributes:
        wheel: its file name.
        sha256: of the file; empty where it can't be read.
        size: bytes.
        verdict: the severity of its worst finding; `ok`: there is none.
        recipe: project of the recipe whose rules it was checked against; null: those for any wheel.
        cuda: the CUDA majors that its libraries work with.
        linked_runtimes: releases of the CUDA runtime that are linked into its libraries.
        min_driver: the oldest Linux driver, by CUDA major.
        archs: compute capabilities of all machine code in it.
        ptx_archs: compute capabilities of the PTX in it.
        lto_archs: compute capabilities of the code for a link at run time in it.
        tile_archs: compute capabilities of the Tile IR in it.
        libraries: its shared libraries.
        device_files: its other files with device code.
        supplies: who supplies what they need.
        findings: the worst first.
    """

    wheel: str
    sha256: str
    size: int
    verdict: Severity | Literal["ok"]
    recipe: str | None
    cuda: tuple[int, ...]
    linked_runtimes: tuple[str, ...]
    min_driver: dict[str, str]
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    lto_archs: tuple[str, ...]
    tile_archs: tuple[str, ...]
    libraries: tuple[AuditedLibrary, ...]
    device_files: tuple[DeviceFile, ...]
    supplies: tuple[SuppliedLibrary, ...]
    findings: tuple[AuditFinding, ...]


@dataclass(frozen=True, kw_only=True)
class AuditDocument:
    """What `audit --json` prints.

    Attributes:
        wheels: in the order in which they were named.
    """

    SCHEMA: ClassVar[Schema] = Schema("audit", "1.0")

    wheels: tuple[AuditedWheel, ...]


def audit_document(results: Iterable[AuditResult]) -> AuditDocument:
    """Judgements as a document."""
    return AuditDocument(wheels=tuple(map(_audited_wheel, results)))


def _audited_wheel(result: AuditResult) -> AuditedWheel:
    case = result.case
    return AuditedWheel(
        wheel=case.scan.file_name,
        sha256=case.scan.sha256,
        size=case.scan.size,
        verdict=result.verdict or "ok",
        recipe=case.contract.project if case.contract else None,
        cuda=result.majors,
        linked_runtimes=tuple(case.runtimes),
        min_driver={str(major): driver for major, driver in result.min_driver},
        archs=result.archs,
        ptx_archs=result.ptx_archs,
        lto_archs=result.lto_archs,
        tile_archs=result.tile_archs,
        libraries=tuple(map(_audited_library, case.scan.libraries)),
        device_files=tuple(
            DeviceFile(file=name, **_archs(code)) for name, code in case.scan.device_files.items()
        ),
        supplies=tuple(
            SuppliedLibrary(
                library=supply.library,
                needs=supply.soname,
                supplier=supply.supplier,
                condition=supply.condition,
            )
            for supply in result.supplies
        ),
        findings=tuple(
            AuditFinding(
                severity=finding.severity,
                rule=finding.rule,
                file=finding.file,
                fact=finding.fact,
                anchor=f"TROUBLESHOOTING.md#{finding.anchor}",
            )
            for finding in result.findings
        ),
    )


def _audited_library(library: ScannedLibrary) -> AuditedLibrary:
    elf = library.elf
    return AuditedLibrary(
        file=library.name,
        **_archs(library.device_code or DeviceCode()),
        linked_runtime=library.cudart or None,
        needs=tuple(elf.needed) if elf else (),
        rpath=tuple(elf.rpath) if elf else (),
        runpath=tuple(elf.runpath) if elf else (),
    )


def _archs(code: DeviceCode) -> dict[str, tuple[str, ...]]:
    return {
        "archs": code.sass,
        "ptx_archs": code.ptx,
        "lto_archs": code.lto,
        "tile_archs": code.tile,
    }


def _facts(result: AuditResult) -> rich.table.Table:
    case = result.case
    majors = ", ".join(map(str, result.majors)) or ("none needed" if case.is_read else "not read")
    drivers = ", ".join(f"{driver} (CUDA {major})" for major, driver in result.min_driver)
    held = f"the recipe of {case.contract.project}" if case.contract else "those for any wheel"
    table = rich.table.Table(show_header=False, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in (
        ("rules", held),
        ("size", rich.filesize.decimal(case.scan.size)),
        ("sha256", case.scan.sha256),
        ("libraries", str(len(case.host_libraries)) if case.is_read else "not read"),
        ("CUDA", majors),
        ("oldest driver", drivers),
        ("CUDA runtime", ", ".join(f"{release}, statically linked" for release in case.runtimes)),
        (
            "archs",
            describe_code(
                DeviceCode(
                    sass=result.archs,
                    ptx=result.ptx_archs,
                    lto=result.lto_archs,
                    tile=result.tile_archs,
                )
            ),
        ),
        ("device files", _device_files(case.scan)),
    ):
        if value:
            table.add_row(name, rich.markup.escape(value))
    return table


def _device_files(scan: WheelScan) -> str:
    """How many there are beside the libraries, and their archs."""
    files = scan.device_files
    if not files:
        return ""
    return f"{len(files)}: {describe_code(join_codes(files.values()))}"


def _supply_table(supplies: Iterable[Supply]) -> rich.table.Table | None:
    """What comes from other wheels; the findings name what nobody supplies."""
    rows: dict[str, list[Supply]] = {}
    for supply in supplies:
        if supply.supplier not in ("", "system", "wheel"):
            rows.setdefault(supply.supplier, []).append(supply)
    if not rows:
        return None
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("supplied by", "needed", "when"):
        table.add_column(heading, overflow="fold")
    for supplier, same in sorted(rows.items()):
        sonames = " ".join(sorted({supply.soname for supply in same}))
        when = "; ".join(sorted({supply.condition for supply in same if supply.condition}))
        row = map(one_line, (supplier, sonames, when))
        table.add_row(*map(rich.markup.escape, row))
    return table


def _print_findings(
    findings: Iterable[Finding], terminal: rich.console.Console, *, is_verbose: bool
) -> None:
    """Findings of one rule stand together, and so do files of which the same is true."""
    groups: dict[tuple[Severity, str], dict[str, list[Finding]]] = {}
    for finding in findings:
        facts = groups.setdefault((finding.severity, finding.rule), {})
        facts.setdefault(finding.fact, []).append(finding)
    for (severity, rule), facts in groups.items():
        terminal.print()
        terminal.print(rich.text.Text(f"{severity}: {rule}", style=_STYLES[severity]))
        if is_verbose:
            for one in (one for same in facts.values() for one in same):
                _print_line(one_line(f"{one.file}: {one.fact}"), terminal)
        else:
            _print_kinds(facts, severity, terminal)
        anchor = next(iter(facts.values()))[0].anchor
        _print_line(f"more  TROUBLESHOOTING.md#{anchor}", terminal)


def _print_kinds(
    facts: Mapping[str, list[Finding]], severity: Severity, terminal: rich.console.Console
) -> None:
    """A line for findings that are alike."""
    kinds = _kinds(facts)
    for kind in kinds[: _SHOWN[severity]]:
        _print_line(_kind_text(kind, facts[kind[0]]), terminal)
    if left := sum(map(len, kinds[_SHOWN[severity] :])):
        _print_line(f"and {plural(left, severity)} more like these: -- -v shows all", terminal)


def _kinds(facts: Iterable[str]) -> list[list[str]]:
    """Facts that differ in numbers only, together."""
    kinds: dict[str, list[str]] = {}
    for fact in facts:
        kinds.setdefault(_NUMBER.sub("0", fact), []).append(fact)
    return list(kinds.values())


def _kind_text(kind: list[str], findings: list[Finding]) -> str:
    files, facts = len(findings) - 1, len(kind) - 1
    text = f"{findings[0].file}{f' and {files} more' if files else ''}: {kind[0]}"
    note = f" (and {facts} more that differ in numbers only: -- -v shows all)"
    return one_line(text + note if facts else text)


def _print_line(text: str, terminal: rich.console.Console) -> None:
    """On a terminal wrapped, and indented where it goes on; a line of a log stays a line."""
    if terminal.is_terminal:
        first, *rest = rich.text.Text(text).wrap(terminal, max(terminal.width - 4, 20))
        terminal.print(rich.padding.Padding(first, (0, 0, 0, 2)))
        for line in rest:
            terminal.print(rich.padding.Padding(line, (0, 0, 0, 4)))
    else:
        terminal.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)


def _verdict(result: AuditResult) -> str:
    return one_line(f"{result.case.scan.file_name}: {counts_of(result)}")


def counts_of(result: AuditResult) -> str:
    """`1 error, 2 warnings`."""
    counts = Counter(finding.severity for finding in result.findings)
    words = [plural(counts[severity], severity) for severity in SEVERITIES if counts[severity]]
    return ", ".join(words) or "nothing found"
