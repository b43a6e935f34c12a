"""Reports as HTML pages that load nothing and follow the browser's light or dark scheme."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem;
  padding: 0 1rem; color: #1c2024; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid #e3e6e9;
  vertical-align: top; overflow-wrap: break-word; }
.scrolling { overflow-x: auto; }
code { font-size: .9em; overflow-wrap: anywhere; }
.state { border-radius: .25rem; padding: .05rem .4rem; white-space: nowrap; }
.good { background: #d7f0dd; } .warning { background: #fbecc2; } .bad { background: #f8d3d0; }
.open { background: #d6ebf5; } .idle { background: #eceef0; color: #667; }
.wrong, .yanked { color: #b3261e; } .note { color: #6b5200; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8ea; background: #16181a; } th, td, section { border-color: #333; }
  .good { background: #1d4d2b; } .warning { background: #5a4712; } .bad { background: #6b2420; }
  .open { background: #174a60; } .idle { background: #2a2e32; color: #99a; }
  .wrong, .yanked { color: #ff8a80; } .note { color: #e6c35c; } a { color: #7cc0ff; } }
"""


def page(title: str, body: str, *, style: str = "") -> str:
    """Return a whole page.

    Args:
        title: text, which is escaped; `body` is HTML.
        style: further CSS.
    """
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}{style}</style>
<main>
{body}
</main>
</html>
"""


def table(titles: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table of `row`s; without titles it has no head."""
    cells = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    head = f"<thead><tr>{cells}</tr></thead>\n" if cells else ""
    return f"<table>{head}<tbody>\n{chr(10).join(rows)}\n</tbody></table>"


def scrolling(content: str, name: str) -> str:
    """Return content that may be wider than a phone, and that the keyboard can scroll."""
    role = f'role="region" aria-label="{escape(name)}" tabindex="0"'
    return f'<div class="scrolling" {role}>{content}</div>'


def row(cells: Iterable[str], attributes: str = "") -> str:
    """Return a table's row; cells and attributes are HTML."""
    return f"<tr{attributes}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def label(state: str, kind: str) -> str:
    """Return a state on the colour of a kind: good, warning, bad, open or idle."""
    return f'<span class="state {kind}">{state}</span>'
