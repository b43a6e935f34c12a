"""A run as text on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich.console
import rich.markup
import rich.table

from cuwheel.perf.report.figures import (
    ERROR_TITLES,
    TITLES,
    describe_run,
    errors_of,
    row_of,
    show_answer,
    show_seconds,
    show_suppliers,
)
from cuwheel.system.quantities import show_share, show_size

if TYPE_CHECKING:
    from cuwheel.perf.records import CaseResult, PerfRun, SweepResult
    from cuwheel.system.console import Console

_STYLES = {"SLOWER": "red", "UNDECIDED": "yellow", "SAME": "green", "FASTER": "green"}


def print_run(run: PerfRun, terminal: rich.console.Console, console: Console) -> None:
    """Print what was measured, each case, and what is wrong.

    Args:
        run: what was measured.
        terminal: where to.
        console: says how much: where it is quiet, what is wrong and the answer.
    """
    if not console.is_quiet:
        _print_cases(run, terminal, is_verbose=console.is_verbose)
    for fault in run.faults:
        terminal.print(f"wrong: {fault}", markup=False, style="red")
    if run.answer:
        terminal.print(show_answer(run), markup=False, style=_STYLES[run.answer])


def _print_cases(run: PerfRun, terminal: rich.console.Console, *, is_verbose: bool) -> None:
    for title, text in describe_run(run):
        terminal.print(f"{title:10} {text}", markup=False)
    table = _new_table(TITLES)
    for case in run.cases:
        table.add_row(*map(rich.markup.escape, row_of(case)), style=_style_of(case))
    terminal.print(table)
    if run.sweep:
        terminal.print(_sweep_table(run.sweep))
    for line in show_suppliers(run.libraries):
        terminal.print(line, markup=False, style="dim")
    for note in run.notes:
        terminal.print(f"note: {note}", markup=False)
    if is_verbose:
        _print_details(run, terminal)


def _print_details(run: PerfRun, terminal: rich.console.Console) -> None:
    """How errors stand to their limits, and the kernels of each case."""
    errors = _new_table(ERROR_TITLES)
    for row in errors_of(run.cases):
        errors.add_row(*map(rich.markup.escape, row), style="dim")
    terminal.print(errors)
    for case in run.cases:
        for name, share in case.kernels:
            terminal.print(f"{case.name}: {show_share(share)} {name}", markup=False, style="dim")


def _style_of(case: CaseResult) -> str:
    if case.faults or case.failed:
        return "red"
    if case.skipped:
        return "dim"
    return _STYLES[case.comparison.answer] if case.comparison else ""


def _new_table(titles: tuple[str, ...]) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _sweep_table(sweep: tuple[SweepResult, ...]) -> rich.table.Table:
    table = _new_table(("clients", "requests/s", "tokens/s", "p50", "p95", "GPU memory", "what"))
    for one in sweep:
        table.add_row(
            str(one.clients),
            f"{one.rate:.2f}",
            f"{one.tokens:.0f}" if one.tokens else "",
            show_seconds(one.p50),
            show_seconds(one.p95),
            show_size(one.memory),
            rich.markup.escape(one.what),
        )
    return table
