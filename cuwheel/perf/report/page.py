"""A run and its history as one page that any browser shows: it loads nothing."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from cuwheel.perf.report.figures import (
    ERROR_TITLES,
    TITLES,
    describe_run,
    errors_of,
    row_of,
    show_answer,
    show_seconds,
)
from cuwheel.perf.report.history import changes_of
from cuwheel.perf.report.picture import draw_history
from cuwheel.system.quantities import show_share, show_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cuwheel.perf.records import CaseResult, PerfRun

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
  padding: 0 1rem; color: #1c2024; background: #fff; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #e3e6e9;
  vertical-align: top; overflow-wrap: anywhere; }
img { max-width: 100%; background: #fff; } code { font-size: .85em; overflow-wrap: anywhere; }
.wrong { color: #b3261e; } .note { color: #6b5200; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8ea; background: #16181a; } th, td { border-color: #333; }
  .wrong { color: #ff8a80; } .note { color: #e6c35c; } }
"""


def page_of(run: PerfRun, picture: bytes, history: Sequence[PerfRun]) -> str:
    """The page.

    Args:
        run: what was measured.
        picture: of it, PNG.
        history: runs on the same GPU, the oldest first, this one among them.
    """
    title = f"{run.package} on {run.gpu_names}"
    facts = [(name, escape(text)) for name, text in describe_run(run)]
    parts = [
        f"<h1>{escape(title)}</h1>",
        _verdict(run),
        _table((), facts),
        _image(picture, f"Times of {run.package}"),
        "<h2>Cases</h2>",
        _table(TITLES, [tuple(map(escape, row_of(case))) for case in run.cases]),
        *_sweep(run),
        "<h2>Errors</h2>",
        _table(ERROR_TITLES, [tuple(map(escape, one)) for one in errors_of(run.cases)]),
        "<h2>Clocks and kernels</h2>",
        _table(
            ("case", "SM clock, MHz", "cycles", "power, W", "°C", "kernels that took longest"),
            [_clock_row(case) for case in run.cases if not case.skipped],
        ),
        "<h2>Libraries</h2>",
        _table(("library", "file", "from"), [tuple(map(escape, one)) for one in run.libraries]),
        *_history(history, run),
    ]
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
{chr(10).join(parts)}
</html>
"""


def _verdict(run: PerfRun) -> str:
    lines = [f'<p class="wrong">wrong: {escape(fault)}</p>' for fault in run.faults]
    lines += [f'<p class="wrong">failed: {escape(one)}</p>' for one in run.failures]
    lines += [f'<p class="note">{escape(note)}</p>' for note in run.notes]
    if run.answer:
        lines.append(f"<p><strong>{escape(show_answer(run))}</strong></p>")
    return "\n".join(lines)


def _clock_row(case: CaseResult) -> tuple[str, ...]:
    clocks = case.clocks
    kernels = "<br>".join(
        f"{show_share(share)} <code>{escape(name)}</code>" for name, share in case.kernels
    )
    span = f"{clocks.sm[0]} to {clocks.sm[2]}, median {clocks.sm[1]}" if clocks.sm[1] else ""
    cycles = f"{case.cycles:,.0f}" if case.cycles else ""
    power = f"{clocks.power:.0f}" if clocks.power else ""
    heat = str(clocks.temperature) if clocks.temperature else ""
    return escape(case.name), span, cycles, power, heat, kernels


def _sweep(run: PerfRun) -> list[str]:
    if not run.sweep:
        return []
    titles = ("clients", "requests/s", "tokens/s", "p50", "p95", "GPU memory", "what")
    rows = [
        (
            str(one.clients),
            f"{one.rate:.2f}",
            f"{one.tokens:.0f}",
            show_seconds(one.p50),
            show_seconds(one.p95),
            show_size(one.memory),
            escape(one.what),
        )
        for one in run.sweep
    ]
    return ["<h2>Concurrent requests</h2>", _table(titles, rows)]


def _history(history: Sequence[PerfRun], run: PerfRun) -> list[str]:
    if len(history) < 2:  # noqa: PLR2004 - one is this run
        return []
    parts = ["<h2>History on this GPU</h2>"]
    for case in run.cases:
        if case.timing:
            parts.append(_image(draw_history(history, case.name), f"History of {case.name}"))
            hints = "; ".join(changes_of(history, case.name))
            parts += [f'<p class="note">possible change: {escape(hints)}</p>'] if hints else []
    return parts


def _image(content: bytes, text: str) -> str:
    data = base64.b64encode(content).decode()
    return f'<p><img alt="{escape(text)}" src="data:image/png;base64,{data}"></p>'


def _table(titles: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )
