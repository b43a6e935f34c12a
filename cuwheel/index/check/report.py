"""What a check found, as text for people and as data for machines."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from cuwheel.index.check.rules import RULES, SEVERITIES
from cuwheel.spelling import as_typed
from cuwheel.system.output.documents import Schema
from cuwheel.system.output.terminal import one_line
from cuwheel.system.quantities import plural, show_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    import rich.console

    from cuwheel.index.check.result import CheckResult
    from cuwheel.index.check.rules import Rule, Severity
    from cuwheel.system.console import Console

_WIDTH = 80  # columns
_SHOWN: dict[Severity, int] = {"error": 20, "warning": 10, "note": 3}  # places of one rule
_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "dim"}


def print_check(result: CheckResult, terminal: rich.console.Console, console: Console) -> None:
    """Print the findings by rule, the worst first, and what they come to.

    Args:
        result: of the check.
        terminal: where to.
        console: says how much: where it is quiet, no more than what is wrong.
    """
    for rule in _broken(result):
        if console.is_quiet and rule.severity == "note":
            continue
        head = f"{rule.severity} {rule.code}: {rule.summary}"
        terminal.print(_wrapped(head, ""), markup=False, style=_STYLES[rule.severity])
        for line in _places(result, rule, is_verbose=console.is_verbose):
            terminal.print(line, markup=False)
        terminal.print(_wrapped(f"because  {rule.why}", "  ", 9), markup=False)
        terminal.print(_wrapped(f"to fix   {as_typed(rule.fix)}", "  ", 9), markup=False)
        terminal.print()
    terminal.print(_wrapped(_summary(result), ""), markup=False)


def _broken(result: CheckResult) -> Iterator[Rule]:
    for severity in SEVERITIES:
        yield from (
            rule for rule in RULES if rule.severity == severity and result.counts[rule.code]
        )


def _places(result: CheckResult, rule: Rule, *, is_verbose: bool) -> Iterator[str]:
    found = [one for one in result.findings if one.code == rule.code]
    most = len(found) if is_verbose else _SHOWN[rule.severity]
    for one in found[:most]:
        yield _wrapped(f"- {one_line(one.where)}", "  ", 2)
        yield _wrapped(one_line(one.fact), "    ")
    if more := result.counts[rule.code] - min(most, len(found)):
        yield f"  - and {more} more{'' if is_verbose else '; --verbose names them'}"


def _wrapped(text: str, indent: str, hanging: int = 0) -> str:
    """A paragraph of at most 80 columns; a word that has more is broken."""
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_on_hyphens=False,
    )


def _summary(result: CheckResult) -> str:
    said = [plural(found, one) for one in SEVERITIES if (found := result.count(one))]
    read = f", {show_size(result.downloaded)} downloaded" if result.downloaded else ""
    left = f"; hashes of {plural(result.unhashed, 'file')} weren't compared (--quick)"
    return (
        f"{plural(result.pages, 'page')}, {plural(result.files, 'file')}{read}: "
        f"{', '.join(said) or 'nothing found'}{left if result.unhashed else ''}"
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
    """What a check found, as a document."""
    return IndexCheckDocument(
        indexes=result.indexes,
        verdict=result.verdict or "ok",
        pages=result.pages,
        files=result.files,
        downloaded=result.downloaded,
        unhashed=result.unhashed,
        counts=dict(result.counts),
        findings=tuple(
            IndexFinding(
                severity=one.rule.severity,
                code=one.code,
                where=one.where,
                fact=one.fact,
                why=one.rule.why,
                fix=as_typed(one.rule.fix),
            )
            for rule in _broken(result)
            for one in result.findings
            if one.code == rule.code
        ),
    )
