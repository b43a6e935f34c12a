"""A comparison of two wheels as text for people and as data for machines."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

import rich.console
import rich.filesize
import rich.markup
import rich.padding
import rich.table
import rich.text

from cuwheel.system import process
from cuwheel.system.output.documents import Schema
from cuwheel.system.quantities import plural
from cuwheel.verify.compare.differences import CAUSES, Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.verify.compare.differences import CauseKey, Comparison, Difference, Side


_SHOWN = 8  # differences of one member with the same causes
# Characters of the names that one call of c++filt is given: Linux takes no argument of more than
# 128 KiB (execve(2)), and a character has up to four bytes.
_NAMES_AT_ONCE = 30_000


def print_comparison(comparison: Comparison, terminal: rich.console.Console) -> None:
    """Print whether two wheels are the same bytes, the causes, and every difference by member."""
    terminal.rule("[bold]two wheels compared[/]", align="left")
    terminal.print(_sides(comparison))
    names = demangle(one.location.kernel for one in comparison.differences)
    own = [one for one in comparison.differences if not one.is_consequence]
    for member in dict.fromkeys(one.location.member for one in own):
        _print_member(
            member, [one for one in own if one.location.member == member], names, terminal
        )
    _print_consequences(comparison, terminal)
    _print_causes(comparison, terminal)
    terminal.print()
    terminal.print(verdict(comparison), markup=False, soft_wrap=True)


def verdict(comparison: Comparison) -> str:
    """One line: the same bytes, or how many differences, and how many of an unknown cause."""
    if comparison.is_same:
        return f"the same bytes: sha256 {comparison.a.sha256}"
    count = plural(len(comparison.differences), "difference")
    unknown = len(comparison.unexplained)
    return f"not the same bytes: {count}, {unknown or 'none'} of unknown cause"


@dataclass(frozen=True, kw_only=True)
class CountedCause:
    """A known cause of differences.

    Attributes:
        count: of the differences that it explains.
        text: the cause, one clause.
        remedy: what takes it away; empty for what only follows from another difference.
    """

    count: int
    text: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class DifferenceData(Location):
    """One thing in which two wheels differ.

    Attributes:
        member: the file in the wheel; empty for the archive itself.
        section: of an ELF file, `.nv_fatbin`.
        fatbin: number of the fat binary in that file, from 1; 0 where it is none.
        code: kind and arch of device code, `SASS sm_90`, `PTX compute_90`.
        part: what of the device code: a section of a cubin, such as `.note.nv.tkinfo`.
        kernel: the function, as the compiler mangled its name.
        fact: what differs, one clause.
        a: what the first wheel says there, where that is a text.
        b: the same of the second.
        causes: all that explain it; none where the evidence shows none.
        is_consequence: whether it only follows from other differences.
    """

    fact: str
    a: str
    b: str
    causes: tuple[CauseKey, ...]
    is_consequence: bool


@dataclass(frozen=True, kw_only=True)
class ComparisonDocument:
    """What `comparison.json` holds, which `verify` and `rebuild` leave where bytes differ.

    Attributes:
        is_same: whether both wheels are the same bytes.
        a: the first.
        b: the second.
        causes: the known ones, by their names.
        unexplained: how many differences have no known cause.
        differences: all of them.
    """

    SCHEMA: ClassVar[Schema] = Schema("comparison", "1.0")

    is_same: bool
    a: Side
    b: Side
    causes: dict[str, CountedCause]
    unexplained: int
    differences: tuple[DifferenceData, ...]


def comparison_document(comparison: Comparison) -> ComparisonDocument:
    """A comparison as a document."""
    return ComparisonDocument(
        is_same=comparison.is_same,
        a=comparison.a,
        b=comparison.b,
        causes={
            key: CountedCause(count=count, text=CAUSES[key].text, remedy=CAUSES[key].remedy)
            for key, count in comparison.causes
        },
        unexplained=len(comparison.unexplained),
        differences=tuple(
            DifferenceData(
                **asdict(one.location),
                fact=one.fact,
                a=one.a,
                b=one.b,
                causes=one.causes,
                is_consequence=one.is_consequence,
            )
            for one in comparison.differences
        ),
    )


def difference_lines(comparison: Comparison) -> tuple[str, ...]:
    """What differs of itself, a line each: member, section, device code, kernel, and the fact."""
    own = [one for one in comparison.differences if not one.is_consequence]
    names = demangle(one.location.kernel for one in own)
    lines = (
        f"{', '.join(filter(None, (one.location.member, _where(one.location, names))))}: {one.fact}"
        for one in own
    )
    return tuple(lines)


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Kernels as they stand in the source, by their mangled names.

    binutils' `c++filt` knows; a build needs binutils, a reader of wheels may not have them, and
    then names stay as they are.
    """
    mangled = sorted({name for name in names if name})
    known = {name: name for name in mangled}
    program = process.which("c++filt", os.defpath)
    if not program:
        return known
    for part in _batches(mangled):
        done = process.run([program, *part], env={"LC_ALL": "C"}, check=False)
        lines = done.output.splitlines()
        if done.status == 0 and len(lines) == len(part):
            known.update(zip(part, lines, strict=True))
    return known


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    """Names for one call each; one that is too long for any is left out."""
    batch: list[str] = []
    size = 0
    for name in names:
        if len(name) > _NAMES_AT_ONCE:
            continue
        if size + len(name) > _NAMES_AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += len(name)
    if batch:
        yield batch


def _sides(comparison: Comparison) -> rich.table.Table:
    table = rich.table.Table(show_header=False, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold")
    for _ in range(3):
        table.add_column(overflow="fold")
    for name, side in (("first", comparison.a), ("second", comparison.b)):
        size = rich.filesize.decimal(side.size)
        table.add_row(name, rich.markup.escape(side.file_name), size, f"sha256 {side.sha256}")
    return table


def _print_member(
    member: str,
    differences: list[Difference],
    names: Mapping[str, str],
    terminal: rich.console.Console,
) -> None:
    """Differences of one member; those with the same causes stand together."""
    terminal.print()
    terminal.print(rich.text.Text(member or "the archive itself", style="bold"))
    groups: dict[tuple[str, ...], list[Difference]] = {}
    for one in differences:
        groups.setdefault(one.causes, []).append(one)
    for causes, group in groups.items():
        why = ", ".join(causes) or "unknown"
        style = "yellow" if causes else "bold red"
        terminal.print(rich.text.Text(f"  cause: {why}", style=style))
        for one in group[:_SHOWN]:
            _print_difference(one, names, terminal)
        if len(group) > _SHOWN:
            _print_line(f"and {len(group) - _SHOWN} more like these", terminal)


def _print_difference(
    one: Difference, names: Mapping[str, str], terminal: rich.console.Console
) -> None:
    where = _where(one.location, names)
    _print_line(f"{where}: {one.fact}" if where else one.fact, terminal)
    if one.a or one.b:
        _print_line(f"  first   {one.a or '(nothing)'}", terminal)
        _print_line(f"  second  {one.b or '(nothing)'}", terminal)


def _where(location: Location, names: Mapping[str, str]) -> str:
    fatbin = f"fat binary {location.fatbin}" if location.fatbin else ""
    parts = (
        location.section,
        fatbin,
        location.code,
        names.get(location.kernel, location.kernel),
        location.part,
    )
    return ", ".join(part for part in parts if part)


def _print_consequences(comparison: Comparison, terminal: rich.console.Console) -> None:
    """What goes away with the rest, a line for each kind."""
    groups: dict[str, list[Difference]] = {}
    for one in comparison.differences:
        if one.is_consequence:
            groups.setdefault(CAUSES[one.causes[0]].text, []).append(one)
    if not groups:
        return
    terminal.print()
    terminal.print(rich.text.Text("consequences of other differences", style="bold"))
    for text, group in groups.items():
        first = _where(group[0].location, {})
        location = ", ".join(part for part in (group[0].location.member, first) if part)
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        _print_line(f"{text}: {location}{more}", terminal)


def _print_causes(comparison: Comparison, terminal: rich.console.Console) -> None:
    causes = [(key, count) for key, count in comparison.causes if CAUSES[key].remedy]
    if not causes:
        return
    terminal.print()
    terminal.print(rich.text.Text("why", style="bold"))
    for key, count in causes:
        _print_line(f"{key} ({count}): {CAUSES[key].text}", terminal)
        _print_line(f"  to fix  {CAUSES[key].remedy}", terminal)


def _print_line(text: str, terminal: rich.console.Console) -> None:
    """On a terminal wrapped, and indented where it goes on; a line of a log stays a line."""
    if not terminal.is_terminal:
        terminal.print(f"    {text}", markup=False, highlight=False, soft_wrap=True)
        return
    padding = 4 + len(text) - len(text.lstrip())
    first, *rest = rich.text.Text(text.lstrip()).wrap(terminal, max(terminal.width - padding, 20))
    terminal.print(rich.padding.Padding(first, (0, 0, 0, padding)))
    for line in rest:
        terminal.print(rich.padding.Padding(line, (0, 0, 0, padding + 2)))
