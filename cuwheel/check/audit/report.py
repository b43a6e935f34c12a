"""The report of an audit: text for a terminal, and the JSON document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import rich.console
import rich.filesize
import rich.markup
import rich.padding
import rich.table
import rich.text

from cuwheel.base.formats.binaries.archs import DeviceCode, arch_names, describe_code
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import one_line
from cuwheel.base.system.quantities import plural
from cuwheel.check.audit.findings import SEVERITIES, AuditFinding, Severity
from cuwheel.check.audit.scan import ScannedLibrary, join_codes
from cuwheel.check.audit.supply import Supply
from cuwheel.check.audit.tags import describe_pythons, oldest_glibc
from cuwheel.check.audit.verdict import AuditResult
from cuwheel.check.cuda.drivers import newest_driver, ptx_driver
from cuwheel.check.cuda.torch_exports import describe_releases, minor_of

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "dim"}
# Facts that are shown of one rule; a package may have hundreds of libraries.
_SHOWN: dict[Severity, int] = {"error": 20, "warning": 20, "note": 4}
_FILES = 3  # with the same fact that are listed
_LINE = re.compile(r"^line (\d+):? ")


def print_result(result: AuditResult, terminal: rich.console.Console, console: Console) -> None:
    """Print a wheel's facts, the suppliers of its needs, and the findings, the worst first.

    Args:
        console: with `-q`, only errors, warnings and the verdict are printed.
    """
    is_quiet, scan = console.is_quiet, result.case.scan
    if not is_quiet:
        terminal.rule(f"[bold]{rich.markup.escape(one_line(scan.file_name))}[/]", align="left")
        if scan.dist_info:  # else it can't be read, and there is nothing to print
            terminal.print(_facts(result))
        for table in (_arch_grid(result), _supply_table(result.supplies)):
            if table:
                terminal.print()
                terminal.print(table)
    shown = [item for item in result.findings if not (is_quiet and item.severity == "note")]
    _print_findings(shown, terminal, is_verbose=console.is_verbose)
    if not is_quiet:
        terminal.print()
    terminal.print(_verdict(result), markup=False, soft_wrap=True)


def print_verdicts(results: Iterable[AuditResult], terminal: rich.console.Console) -> None:
    """Print one line for each wheel."""
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
        ptx_driver: the oldest Linux driver for a GPU that compiles its PTX; null: not known.
        archs: compute capabilities of all machine code in it.
        ptx_archs: compute capabilities of the PTX in it.
        lto_archs: compute capabilities of the code for a link at run time in it.
        tile_archs: compute capabilities of the Tile IR in it.
        libraries: its shared libraries.
        device_files: its other files with device code.
        supplies: who supplies what they need.
        findings: the worst first.
        torch: minor releases of PyTorch that have all symbols of its libraries; null: it uses none,
            or that isn't known. Layouts of classes aren't compared.
        glibc: the oldest C library of its tags; empty: they name none.
        python: the Pythons of its tags.
        received: bytes that were read of a wheel on a server; null: all of them. Of one that was
            read in parts, `archs` and `libraries` may not be complete, and `min_driver` is a lower
            limit.
    """

    wheel: str
    sha256: str
    size: int
    verdict: Severity | Literal["ok"]
    recipe: str | None
    cuda: tuple[int, ...]
    linked_runtimes: tuple[str, ...]
    min_driver: dict[str, str]
    ptx_driver: str | None
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    lto_archs: tuple[str, ...]
    tile_archs: tuple[str, ...]
    libraries: tuple[AuditedLibrary, ...]
    device_files: tuple[DeviceFile, ...]
    supplies: tuple[SuppliedLibrary, ...]
    findings: tuple[AuditFinding, ...]
    torch: tuple[str, ...] | None
    glibc: str
    python: str
    received: int | None


@dataclass(frozen=True, kw_only=True)
class AuditDocument:
    """What `audit --json` prints.

    Attributes:
        wheels: in the order in which they were named.
    """

    SCHEMA: ClassVar[Schema] = Schema("audit", "1.3")

    wheels: tuple[AuditedWheel, ...]


def audit_document(results: Iterable[AuditResult]) -> AuditDocument:
    """Convert results to the document."""
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
        ptx_driver=ptx_driver(result.code) or None,
        **_archs(result.code),
        libraries=tuple(map(_audited_library, case.scan.libraries)),
        device_files=tuple(
            DeviceFile(file=name, **_archs(code)) for name, code in case.scan.device_files.items()
        ),
        supplies=tuple(
            SuppliedLibrary(
                library=item.library,
                needs=item.soname,
                supplier=item.supplier,
                condition=item.condition,
            )
            for item in result.supplies
        ),
        findings=result.findings,
        torch=None if result.torch is None else tuple(map(minor_of, result.torch)),
        glibc=oldest_glibc(case.tags),
        python=describe_pythons(case.tags),
        received=result.parts.received if result.parts else None,
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
    parts = result.parts
    majors = ", ".join(map(str, result.majors))
    majors = majors or ("none needed" if case.is_read and not parts else "not read")
    least_of = "at least " if parts else ""
    drivers = [f"{least_of}{driver} (CUDA {major})" for major, driver in result.min_driver]
    least = ptx_driver(result.code)
    known = newest_driver(driver for _, driver in result.min_driver)
    if least != known and newest_driver((least, known)) == least:
        drivers.append(f"{least} for GPUs that compile PTX {_version(result.code)}")
    files = case.scan.device_files
    device_files = f"{len(files)}: {describe_code(join_codes(files.values()))}" if files else ""
    rules = f"the recipe of {case.contract.project}" if case.contract else "those for any wheel"
    table = rich.table.Table(show_header=False, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in (
        # What it runs with.
        ("torch", _torch_range(result)),
        ("CUDA", majors),
        ("oldest driver", ", ".join(drivers)),
        ("archs", known_archs(result)),
        ("glibc", oldest_glibc(case.tags)),
        ("Python", describe_pythons(case.tags)),
        # What it is.
        ("CUDA runtime", ", ".join(f"{release}, statically linked" for release in case.runtimes)),
        ("libraries", str(len(case.host_libraries)) if case.is_read and not parts else "not read"),
        ("device files", device_files),
        ("size", rich.filesize.decimal(case.scan.size)),
        ("sha256", case.scan.sha256),
        ("rules", rules),
    ):
        if value:
            table.add_row(name, rich.markup.escape(value))
    return table


def known_archs(result: AuditResult) -> str:
    """Return the archs of the code, and that a wheel that was read in parts may have more."""
    archs = describe_code(result.code)
    if result.parts is None or result.parts.is_all_code_known:
        return archs
    return f"{archs}, and what the rest has" if any((*result.code.sass, *result.code.ptx)) else ""


def _torch_range(result: AuditResult) -> str:
    """Return the releases of PyTorch that a wheel loads with; empty: it uses none."""
    if result.torch is None:
        return "not read" if result.parts else ""
    if not result.torch:
        return "none has all symbols"
    return f"{describe_releases(result.torch)}, by symbols; layouts aren't compared"


def _version(code: DeviceCode) -> str:
    return ".".join(map(str, code.ptx_version))


def _arch_grid(result: AuditResult) -> rich.table.Table | None:
    """Return which libraries have code for which GPUs; None: all have the same."""
    groups: dict[DeviceCode, list[str]] = {}
    for name, code in result.codes:
        groups.setdefault(code, []).append(name)
    if len(groups) < 2:  # noqa: PLR2004 - one row says nothing more than the facts
        return None
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("code for", overflow="fold")
    whole = result.code
    for name in arch_names(whole):
        table.add_column(name)
    for code, names in groups.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        marks = [*(arch in code.sass for arch in whole.sass)]
        marks += [arch in code.ptx for arch in whole.ptx]
        library = rich.markup.escape(one_line(names[0] + more))
        table.add_row(library, *("x" if mark else "" for mark in marks))
    return table


def _supply_table(supplies: Iterable[Supply]) -> rich.table.Table | None:
    """Return the needs from other wheels; needs without supplier are findings."""
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
    findings: Iterable[AuditFinding], terminal: rich.console.Console, *, is_verbose: bool
) -> None:
    """Print findings by rule, and in one line those with the same fact, whatever their lines."""
    groups: dict[tuple[Severity, str], dict[str, list[AuditFinding]]] = {}
    for finding in findings:
        facts = groups.setdefault((finding.severity, finding.rule), {})
        facts.setdefault(_LINE.sub("", finding.fact), []).append(finding)
    for (severity, rule), facts in groups.items():
        terminal.print()
        terminal.print(rich.text.Text(f"{severity}: {rule}", style=_STYLES[severity]))
        same = list(facts.values())
        lines = [f"{item.file}: {item.fact}" for group in same for item in group]
        if not is_verbose:
            lines = list(map(_fact_line, same[: _SHOWN[severity]]))
            if more := len(same) - len(lines):
                text = f"and {plural(more, severity)} more like these: -- -v shows all"
                lines.append(as_typed(text))
        for line in (*lines, as_typed(f"more  {same[0][0].anchor}")):
            _print_line(one_line(line), terminal)


def _fact_line(findings: list[AuditFinding]) -> str:
    """Return the files of a fact and the fact; its lines stand behind the files if they differ."""
    fact, places = findings[0].fact, [item.file for item in findings]
    if any(item.fact != fact for item in findings):
        places = [f"{item.file}:{_LINE.findall(item.fact)[0]}" for item in findings]
        fact = _LINE.sub("", fact)
    places = list(dict.fromkeys(places))
    more = f" and {len(places) - _FILES} more" if len(places) > _FILES else ""
    return f"{', '.join(places[:_FILES])}{more}: {fact}"


def _print_line(text: str, terminal: rich.console.Console) -> None:
    """Print a line, wrapped and indented on a terminal, as one line in a log."""
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
    """Return `1 error, 2 warnings`."""
    counts = Counter(finding.severity for finding in result.findings)
    texts = [plural(counts[severity], severity) for severity in SEVERITIES if counts[severity]]
    return ", ".join(texts) or "nothing found"
