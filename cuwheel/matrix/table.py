"""The matrix on a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import rich.console
import rich.markup
import rich.table

from cuwheel.matrix.state import KINDS
from cuwheel.system.quantities import plural, show_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cuwheel.matrix.state import CellState
    from cuwheel.model.platform import Platform
    from cuwheel.system.console import Console

COLOURS = {
    "built": "green",
    "outdated": "yellow",
    "failed": "red",
    "missing": "cyan",
    "impossible": "dim",
}


def print_states(
    states: Sequence[CellState], terminal: rich.console.Console, console: Console
) -> None:
    """Print a row for each cell, then how many there are of each kind.

    Args:
        states: of the cells.
        terminal: where to.
        console: says how much: where it is quiet, no cell that is built.
    """
    table = rich.table.Table(box=None, pad_edge=False, header_style="bold")
    for title in (*titles_of(states), "state", "time", "date", ""):
        table.add_column(title, overflow="fold", no_wrap=title not in {"", "date"})
    for state in states:
        if not console.is_quiet or state.kind != "built":
            cells = map(rich.markup.escape, row_of(state, states))
            table.add_row(*cells, *_rest(state, is_verbose=console.is_verbose))
    if table.row_count:
        terminal.print(table)
        terminal.print()
    terminal.print(show_counts(states))


def titles_of(states: Sequence[CellState]) -> tuple[str, ...]:
    """What `row_of` says; of platforms nothing where all wheels are for this kind of machine."""
    platform = ("platform",) if any(_platform_of(one).is_foreign for one in states) else ()
    return ("package", "CUDA", "Python", "framework", *platform)


def row_of(state: CellState, states: Sequence[CellState]) -> tuple[str, ...]:
    """Package, CUDA release, Python and framework of a cell, and its platform among several.

    Args:
        state: of the cell.
        states: of all.
    """
    target = state.cell.job.target
    framework = f"{target.framework.name} {target.framework.version}" if target.framework else "-"
    several = {"any": "any", "abi3": f"{target.recipe.oldest_python} and later"}
    python = several.get(target.recipe.python, target.python)
    values = (target.recipe.name, target.toolkit.release, python, framework)
    return (*values, target.platform.name)[: len(titles_of(states))]


def _platform_of(state: CellState) -> Platform:
    return state.cell.job.target.platform


def detail_of(state: CellState) -> str:
    """What is to be said of it: its SHA-256, or why it isn't built."""
    if state.kind == "built":
        return f"{state.sha256[:12]}… {state.detail}".strip()
    if state.kind == "failed":
        return f"{state.detail} (TROUBLESHOOTING.md#{state.anchor})"
    return state.detail


def show_counts(states: Sequence[CellState]) -> str:
    """`9 cells: 8 built, 1 failed`."""
    counts = Counter(state.kind for state in states)
    named = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    return f"{plural(len(states), 'cell')}: {named or 'none'}"


def _rest(state: CellState, *, is_verbose: bool) -> Iterator[str]:
    yield f"[{COLOURS[state.kind]}]{state.kind}[/]"
    yield "" if state.seconds is None else show_time(state.seconds)
    yield state.date.partition("+")[0].replace("T", " ")
    yield rich.markup.escape(
        state.sha256 if is_verbose and state.kind == "built" else detail_of(state)
    )
