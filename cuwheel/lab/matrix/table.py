"""The matrix as a table: on a terminal, and as an HTML page."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

import rich.console
import rich.markup
import rich.table

from cuwheel.base.formats.wheel.publication import WHEEL_FOLDER
from cuwheel.base.system.console import Console
from cuwheel.base.system.folders.output_folder import write_files
from cuwheel.base.system.output import html
from cuwheel.base.system.quantities import plural, show_size, show_time
from cuwheel.base.system.versions import version_key
from cuwheel.build.workspace.masking import PublicText
from cuwheel.lab.matrix.state import KINDS, CellState

_COLOURS = {
    "built": "green",
    "outdated": "yellow",
    "failed": "red",
    "missing": "cyan",
    "impossible": "dim",
}

_PAGE_TITLES = (
    "state",
    "time",
    "size",
    "date (UTC)",
    "wheel or reason",
)  # after those of the table
_LABELS = {
    "built": "good",
    "outdated": "warning",
    "failed": "bad",
    "missing": "open",
    "impossible": "idle",
}
_LEGEND = {
    "built": "up to date",
    "outdated": "exists, but its inputs have changed since",
    "failed": "the last build made no wheel",
    "missing": "not built yet",
    "impossible": "this wheel can't be built, and why",
}
_STYLE = """
td:first-child, td:nth-child(n+4) { white-space: nowrap; }
td:last-child { overflow-wrap: anywhere; white-space: normal; }
.scrolling table { width: auto; } .scrolling td:last-child { white-space: nowrap; }
.scrolling a { color: inherit; text-decoration: none; }
"""


def print_states(
    states: Sequence[CellState], terminal: rich.console.Console, console: Console
) -> None:
    """Print a row for each cell, then the count of each state."""
    table = rich.table.Table(box=None, pad_edge=False, header_style="bold")
    for title in (*titles_of(states), "state", "time", "date", ""):
        table.add_column(title, overflow="fold", no_wrap=title not in {"", "date"})
    for state in states:
        if not console.is_quiet or state.kind != "built":
            is_full = console.is_verbose and state.kind == "built"
            table.add_row(
                *map(rich.markup.escape, row_of(state, states)),
                f"[{_COLOURS[state.kind]}]{state.kind}[/]",
                "" if state.seconds is None else show_time(state.seconds),
                state.date.partition("+")[0].replace("T", " "),
                rich.markup.escape(state.sha256 if is_full else detail_of(state)),
            )
    if table.row_count:
        terminal.print(table)
        terminal.print()
    terminal.print(show_counts(states))


def titles_of(states: Sequence[CellState]) -> tuple[str, ...]:
    """Return the titles of `row_of`; the platform's only where a wheel is for another one."""
    is_foreign = any(state.cell.job.target.platform.is_foreign for state in states)
    return ("package", "CUDA", "Python", "framework", *(("platform",) if is_foreign else ()))


def row_of(state: CellState, states: Sequence[CellState]) -> tuple[str, ...]:
    """Return package, CUDA release, Python and framework of a cell, and perhaps its platform."""
    target = state.cell.job.target
    framework = f"{target.framework.name} {target.framework.version}" if target.framework else "-"
    pythons = {"any": "any", "abi3": f"{target.recipe.oldest_python} and later"}
    python = pythons.get(target.recipe.python, target.python)
    values = (target.recipe.name, target.toolkit.release, python, framework)
    return (*values, target.platform.name)[: len(titles_of(states))]


def detail_of(state: CellState) -> str:
    """Return a cell's SHA-256, or why it isn't built."""
    if state.kind == "built":
        return f"{state.sha256[:12]}… {state.detail}".strip()
    if state.kind == "failed":
        return f"{state.detail} (TROUBLESHOOTING.md#{state.anchor})"
    return state.detail


def show_counts(states: Sequence[CellState]) -> str:
    """Return `9 cells: 8 built, 1 failed`."""
    counts = Counter(state.kind for state in states)
    named = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    return f"{plural(len(states), 'cell')}: {named or 'none'}"


def write_page(states: Sequence[CellState], dist: Path, date: str) -> Path:
    """Write `matrix.html` into the folder of wheels, with the date (UTC) of the states."""
    text = PublicText({}, names=False)
    shown = [dataclasses.replace(state, detail=text.of(state.detail)) for state in states]
    counts = escape(show_counts(states))
    legend = ", ".join(f"{html.label(kind, _LABELS[kind])} {_LEGEND[kind]}" for kind in KINDS)
    body = f"""<h1>Wheels</h1>
<p>{counts}. As of {escape(date)}.</p>
{_grid(states)}
{html.table((*titles_of(states), *_PAGE_TITLES), (_row(state, states) for state in shown))}
<p>{legend}</p>"""
    page = html.page(f"Wheels: {show_counts(states)}", body, style=_STYLE)
    path = dist / "matrix.html"
    write_files(dist, WHEEL_FOLDER, ({path.name: text.of(page).encode()},), is_all=False)
    return path


def _grid(states: Sequence[CellState]) -> str:
    """Return wheels by package and CUDA, and by Python and framework, linked to their rows."""
    grid: dict[tuple[str, ...], dict[tuple[str, str], str]] = {}
    for state in states:
        package, cuda, python, framework, *platform = row_of(state, states)
        label = html.label(state.kind, _LABELS[state.kind])
        link = f'<a href="#{escape(state.cell.id)}">{label}</a>'
        grid.setdefault((package, cuda, *platform), {})[python, framework] = link
    columns = sorted({column for row in grid.values() for column in row}, key=_newest_last)
    titles = (
        "package",
        "CUDA",
        *titles_of(states)[4:],
        *(", ".join(part for part in each if part != "-") for each in columns),
    )
    rows = (
        html.row((*map(escape, name), *(row.get(column, "") for column in columns)))
        for name, row in grid.items()
    )
    return html.scrolling(html.table(titles, rows), "wheels by package, Python and framework")


def _newest_last(column: tuple[str, str]) -> tuple[object, ...]:
    """Return a key of a Python and a framework: `any` and stable ABIs come first."""
    python, framework = column
    name, _, version = framework.partition(" ")
    return name, version_key(version), version_key(python), python


def _row(state: CellState, states: Sequence[CellState]) -> str:
    if state.kind == "built":
        link = f'<a href="{quote(state.wheel)}">{escape(state.wheel)}</a>'
        detail = f"{link}<br><code>{state.sha256}</code><br>{escape(state.detail)}"
    else:
        log = f', <a href=".cuwheel/{quote(state.log)}">log</a>' if state.log else ""
        detail = f"{escape(detail_of(state))}{log}"
    cells = (
        *map(escape, row_of(state, states)),
        html.label(state.kind, _LABELS[state.kind]),
        "" if state.seconds is None else show_time(state.seconds),
        show_size(state.size) if state.size else "",
        escape(state.date.partition("+")[0].replace("T", " ")),
        detail,
    )
    return html.row(cells, f' id="{escape(state.cell.id)}"')
