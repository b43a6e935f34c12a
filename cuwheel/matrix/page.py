"""The matrix as one page that any browser shows: it loads nothing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from cuwheel.matrix.state import KINDS
from cuwheel.matrix.table import detail_of, row_of, show_counts, titles_of
from cuwheel.system.files import write_atomically
from cuwheel.system.quantities import show_size, show_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.matrix.state import CellState


_TITLES = ("state", "time", "size", "date (UTC)", "")  # behind those of the table
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
  padding: 0 1rem; color: #1c2024; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid #e3e6e9;
  vertical-align: top; }
td:first-child, td:nth-child(n+4) { white-space: nowrap; }
td:last-child { overflow-wrap: anywhere; white-space: normal; }
code { font-size: .9em; }
.state { border-radius: .25rem; padding: .05rem .4rem; white-space: nowrap; }
.built { background: #d7f0dd; } .outdated { background: #fbecc2; } .failed { background: #f8d3d0; }
.missing { background: #d6ebf5; } .impossible { background: #eceef0; color: #667; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8ea; background: #16181a; } th, td { border-color: #333; }
  .built { background: #1d4d2b; } .outdated { background: #5a4712; }
  .failed { background: #6b2420; }
  .missing { background: #174a60; } .impossible { background: #2a2e32; color: #99a; }
  a { color: #7cc0ff; } }
"""


def write_page(states: Sequence[CellState], dist: Path, date: str) -> Path:
    """Write `matrix.html` beside the wheels that it links.

    Args:
        states: the cells.
        dist: the folder of finished wheels.
        date: when that was so, in UTC.

    Returns:
        The file.
    """
    rows = "\n".join(_row(state, states) for state in states)
    head = "".join(f"<th>{escape(title)}</th>" for title in (*titles_of(states), *_TITLES))
    path = dist / "matrix.html"
    text = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Wheels: {escape(show_counts(states))}</title>
<style>{_STYLE}</style>
<h1>Wheels</h1>
<p>{escape(show_counts(states))}. As of {escape(date)}.</p>
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
<p>{_legend()}</p>
</html>
"""
    dist.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    return path


def _row(state: CellState, states: Sequence[CellState]) -> str:
    cells = [escape(text) for text in row_of(state, states)]
    cells.append(f'<span class="state {state.kind}">{state.kind}</span>')
    cells.append("" if state.seconds is None else show_time(state.seconds))
    cells.append(show_size(state.size) if state.size else "")
    cells.append(escape(state.date.partition("+")[0].replace("T", " ")))
    cells.append(_detail(state))
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr id="{escape(state.cell.id)}">{row}</tr>'


def _detail(state: CellState) -> str:
    if state.kind == "built":
        link = f'<a href="{quote(state.wheel)}">{escape(state.wheel)}</a>'
        return f"{link}<br><code>{state.sha256}</code><br>{escape(state.detail)}"
    log = f', <a href=".cuwheel/{quote(state.log)}">log</a>' if state.log else ""
    return f"{escape(detail_of(state))}{log}"


def _legend() -> str:
    said = {
        "built": "up to date",
        "outdated": "exists, but its inputs have changed since",
        "failed": "the last build made no wheel",
        "missing": "not built yet",
        "impossible": "this wheel can't be built, and why",
    }
    return ", ".join(f'<span class="state {kind}">{kind}</span> {said[kind]}' for kind in KINDS)
