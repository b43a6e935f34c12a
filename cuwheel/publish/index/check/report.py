"""The violations that a check of indexes found, as text and as a JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import rich.console

from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import one_line
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.audit.findings import Severity
from cuwheel.publish.index.check.rules import SEVERITIES, CheckResult

_SHOWN: dict[Severity, int] = {"error": 20, "warning": 10}  # places of one rule
_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow"}


def print_check(result: CheckResult, terminal: rich.console.Console, console: Console) -> None:
    """Print the violations by rule, the worst first, and a summary."""
    for rule in result.broken_rules():
        violations = [item for item in result.violations if item.code == rule.code]
        shown = violations if console.is_verbose else violations[: _SHOWN[rule.severity]]
        head = f"{rule.severity} {rule.code}: {rule.summary}"
        lines = [f"  - {one_line(item.where)}: {one_line(item.fact)}" for item in shown]
        if more := result.counts[rule.code] - len(shown):
            lines.append(
                f"  - and {more} more{'' if console.is_verbose else '; --verbose names them'}"
            )
        lines += [f"  because  {rule.why}", f"  to fix   {as_typed(rule.fix)}", ""]
        terminal.print(head, markup=False, style=_STYLES[rule.severity], soft_wrap=True)
        terminal.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    terminal.print(_summary(result), markup=False, highlight=False, soft_wrap=True)


def _summary(result: CheckResult) -> str:
    counts = [
        plural(count, severity) for severity in SEVERITIES if (count := result.count(severity))
    ]
    read = f", {show_size(result.downloaded)} downloaded" if result.downloaded else ""
    unhashed = f"; hashes of {plural(result.unhashed, 'file')} weren't compared (--quick)"
    return (
        f"{plural(result.pages, 'page')}, {plural(result.files, 'file')}{read}: "
        f"{', '.join(counts) or 'nothing found'}{unhashed if result.unhashed else ''}"
    )


@dataclass(frozen=True, kw_only=True)
class IndexFinding:
    """A place that breaks a rule.

    Attributes:
        severity: how bad it is.
        code: of the rule, as docs/reference/index-check.md lists them.
        where: the page or file.
        fact: what was found.
        why: why that matters.
        fix: what to do.
    """

    severity: Severity
    code: str
    where: str
    fact: str
    why: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class IndexCheckDocument:
    """What `index --check --json` prints.

    Attributes:
        indexes: the addresses that were checked, without passwords.
        verdict: the severity of the worst finding; `ok`: there is none.
        pages: how many pages of projects were read.
        files: how many files were checked.
        downloaded: bytes of files.
        unhashed: how many files weren't compared with their hashes.
        counts: how many findings there are, by code.
        findings: of each rule the first ones.
    """

    SCHEMA: ClassVar[Schema] = Schema("index-check", "1.0")

    indexes: tuple[str, ...]
    verdict: Severity | Literal["ok"]
    pages: int
    files: int
    downloaded: int
    unhashed: int
    counts: dict[str, int]
    findings: tuple[IndexFinding, ...]


def check_document(result: CheckResult) -> IndexCheckDocument:
    """Return the result of a check as a document."""
    return IndexCheckDocument(
        indexes=result.indexes,
        verdict=next((rule.severity for rule in result.broken_rules()), "ok"),
        pages=result.pages,
        files=result.files,
        downloaded=result.downloaded,
        unhashed=result.unhashed,
        counts=dict(result.counts),
        findings=tuple(
            IndexFinding(
                severity=rule.severity,
                code=rule.code,
                where=violation.where,
                fact=violation.fact,
                why=rule.why,
                fix=as_typed(rule.fix),
            )
            for rule in result.broken_rules()
            for violation in result.violations
            if violation.code == rule.code
        ),
    )
