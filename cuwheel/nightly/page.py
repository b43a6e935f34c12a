"""A nightly run as one page that any browser shows: it loads nothing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from cuwheel.nightly.record import STATES
from cuwheel.system.quantities import show_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuwheel.nightly.record import NightlyRun, Step


PAGE = "index.html"
_EARLIER = 30  # runs that the page links
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
  padding: 0 1rem; color: #1c2024; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid #e3e6e9;
  vertical-align: top; }
td:nth-child(-n+4) { white-space: nowrap; }
td:last-child { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; margin: .4rem 0; font-size: .85em; }
.state { border-radius: .25rem; padding: .05rem .4rem; }
.passed { background: #d7f0dd; } .ended, .running { background: #fbecc2; }
.failed { background: #f8d3d0; } .skipped { background: #eceef0; color: #667; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8ea; background: #16181a; } th, td { border-color: #333; }
  .passed { background: #1d4d2b; } .ended, .running { background: #5a4712; }
  .failed { background: #6b2420; } .skipped { background: #2a2e32; color: #99a; }
  a { color: #7cc0ff; } }
"""


def page_of(run: NightlyRun, earlier: Sequence[tuple[str, NightlyRun]]) -> str:
    """The page.

    Args:
        run: what it shows.
        earlier: the runs before it with their folders' names, the newest first.
    """
    rows = "\n".join(map(_row, run.steps))
    title = f"Nightly {run.started.partition('+')[0].replace('T', ' ')} UTC: {run.state}"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
<h1>Nightly {_label(run.state)}</h1>
<p>{escape(_about(run))}</p>
<p>{escape(run.counts)}, in {show_time(run.seconds)}.</p>
<table>
<thead><tr><th>step</th><th>of</th><th>state</th><th>time</th><th></th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
<p>{_legend()}</p>
{_history(earlier)}
</html>
"""


def _about(run: NightlyRun) -> str:
    gpus = ", ".join(run.gpus)
    gpu = f"{gpus}, driver {run.driver}" if gpus else "no GPU"
    when = run.started.partition("+")[0].replace("T", " ")
    return f"{when} UTC on {run.host}, {gpu}, commit {run.commit[:12] or 'unknown'}"


def _row(step: Step) -> str:
    cells = (
        escape(step.name),
        escape(step.about),
        _label(step.state),
        show_time(step.seconds) if step.seconds else "",
        _detail(step),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _detail(step: Step) -> str:
    links = [(step.log, "log")] if step.log else []
    links += [(page, page.rpartition("/")[2]) for page in step.pages]
    shown = ", ".join(f'<a href="{quote(path)}">{escape(name)}</a>' for path, name in links)
    said = " ".join(part for part in (escape(step.detail), shown) if part)
    if not step.explanation:
        return said
    return (
        f"{said}<details><summary>what the log says</summary>"
        f"<pre>{escape(step.explanation)}</pre></details>"
    )


def _label(state: str) -> str:
    return f'<span class="state {state}">{state}</span>'


def _history(earlier: Sequence[tuple[str, NightlyRun]]) -> str:
    items = "\n".join(
        f'<li><a href="../{quote(name)}/{PAGE}">{escape(name)}</a> {_label(run.state)} '
        f"{escape(run.counts)}</li>"
        for name, run in earlier[:_EARLIER]
    )
    return f"<h2>Before</h2>\n<ul>\n{items}\n</ul>" if items else ""


def _legend() -> str:
    said = {
        "failed": "it failed, and why",
        "ended": "it was stopped by the time limit or a person",
        "skipped": "not run, and why",
        "passed": "it succeeded",
    }
    return ", ".join(f"{_label(state)} {said[state]}" for state in STATES)
