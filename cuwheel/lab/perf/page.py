"""The HTML page of a run of `perf` and its history, with its pictures as PNG."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from html import escape

import matplotlib as mpl
from matplotlib.axes import Axes  # noqa: TC002 - no start-up time depends on it
from matplotlib.figure import Figure

from cuwheel.base.system.output import html
from cuwheel.base.system.quantities import show_share
from cuwheel.lab.perf.records import CaseResult, PerfRun, Timing
from cuwheel.lab.perf.report import (
    ERROR_TITLES,
    SWEEP_TITLES,
    TITLES,
    describe_run,
    errors_of,
    row_of,
    show_answer,
    show_levels,
    show_rate,
    show_seconds,
    sweep_row,
)

_STYLE = """
table { margin: 1rem 0; } th, td { overflow-wrap: anywhere; }
img { max-width: 100%; background: #fff; }
"""
_CLOCKS = ("case", "SM clock, MHz", "cycles", "power, W", "°C", "kernels that took longest")
_WIDTH = 11.0  # inches
_ROW = 0.42  # inches for a case
_EDGE = 1.9  # inches for titles and axis
_OURS, _RIVAL, _WRONG = "#2f6f9f", "#b8c4cc", "#c0392b"
_DPI = 110

mpl.rcParams["svg.hashsalt"] = "cuwheel"


def page_of(run: PerfRun, picture: bytes, history: Sequence[PerfRun]) -> str:
    """Return the page."""
    title = f"{run.package} on {run.gpu_names}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        *(_paragraph(f"wrong: {fault}", "wrong") for fault in run.faults),
        *(_paragraph(f"failed: {failure}", "wrong") for failure in run.failures),
        *(_paragraph(f"undecided: {reason}", "wrong") for reason in run.undecided),
        *(_paragraph(note, "note") for note in (*run.notes, *show_levels(run))),
        f"<p><strong>{escape(show_answer(run))}</strong></p>" if run.answer else "",
        _table((), describe_run(run)),
        _image(picture, f"Times of {run.package}"),
        "<h2>Cases</h2>",
        _table(TITLES, map(row_of, run.cases)),
    ]
    if run.sweep:
        sections += [
            "<h2>Concurrent requests</h2>",
            _table(SWEEP_TITLES, map(sweep_row, run.sweep)),
        ]
    sections += [
        "<h2>Errors</h2>",
        _table(ERROR_TITLES, errors_of(run.cases)),
        "<h2>Clocks and kernels</h2>",
        html.table(_CLOCKS, [_clock_row(case) for case in run.cases if not case.skipped]),
        "<h2>Libraries</h2>",
        _table(("library", "file", "from"), run.libraries),
        *_history(history, run),
    ]
    return html.page(title, "\n".join(filter(None, sections)), style=_STYLE)


def _clock_row(case: CaseResult) -> str:
    clocks = case.clocks
    kernels = "<br>".join(
        f"{show_share(share)} <code>{escape(name)}</code>" for name, share in case.kernels
    )
    return html.row(
        (
            escape(case.name),
            f"{clocks.sm[0]} to {clocks.sm[2]}, median {clocks.sm[1]}" if clocks.sm[1] else "",
            f"{case.cycles:,.0f}" if case.cycles else "",
            f"{clocks.power:.0f}" if clocks.power else "",
            str(clocks.temperature or ""),
            kernels,
        )
    )


def _history(history: Sequence[PerfRun], run: PerfRun) -> Iterator[str]:
    if len(history) < 2:  # noqa: PLR2004 - one is this run
        return
    yield "<h2>History on this GPU</h2>"
    for case in run.cases:
        if case.timing:
            yield _image(draw_history(history, case.name), f"History of {case.name}")


def _paragraph(text: str, kind: str) -> str:
    return f'<p class="{kind}">{escape(text)}</p>'


def _image(content: bytes, text: str) -> str:
    data = base64.b64encode(content).decode()
    return f'<p><img alt="{escape(text)}" src="data:image/png;base64,{data}"></p>'


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return html.table(titles, (html.row(map(escape, row)) for row in rows))


def draw_run(run: PerfRun) -> bytes:
    """Return the picture of a run.

    Bars are the time of a call relative to the rival's, or 1 without a rival; the text is the time.
    """
    cases = [(case, case.timing) for case in run.cases if case.timing]
    figure = Figure(figsize=(_WIDTH, _EDGE + _ROW * max(1, len(cases))), layout="constrained")
    axes = figure.add_subplot()
    for row, (case, timing) in enumerate(cases):
        _draw_case(axes, row, case, timing)
    axes.set_yticks(range(len(cases)), [case.name for case, _ in cases], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.axvline(1, color="#555", linewidth=0.8)
    axes.set_xlabel("time per call, relative to the alternative's = 1 (shorter is faster)")
    axes.set_title(f"{run.package} on {run.gpu_names}, {run.date[:10]}", fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return _as_png(figure)


def draw_history(runs: Sequence[PerfRun], case: str) -> bytes:
    """Return a plot of one case's time in each run."""
    timings = [
        (run.date[:10], result.timing)
        for run in runs
        for result in run.cases
        if result.name == case and result.timing
    ]
    figure = Figure(figsize=(_WIDTH, 2.2), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(timings))
    medians = [timing.median * 1e3 for _, timing in timings]
    spread = (
        [(timing.median - timing.low) * 1e3 for _, timing in timings],
        [(timing.high - timing.median) * 1e3 for _, timing in timings],
    )
    axes.errorbar(places, medians, yerr=spread, fmt="o-", color=_OURS, markersize=4)
    axes.set_xticks(places, [date for date, _ in timings], fontsize=7, rotation=30)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("ms")
    axes.set_title(case, fontsize=9)
    return _as_png(figure)


def _draw_case(axes: Axes, row: int, case: CaseResult, timing: Timing) -> None:
    rival = case.rival_timing
    whole = rival.median if rival else timing.median
    if rival:
        axes.barh(row, 1, height=0.72, color=_RIVAL)
    error = [[(timing.median - timing.low) / whole], [(timing.high - timing.median) / whole]]
    color = _WRONG if case.faults else _OURS
    axes.barh(row, timing.median / whole, height=0.42, color=color, xerr=error, ecolor="#222")
    texts = [show_seconds(timing.median), show_rate(case)]
    texts += [f"{rival.median / timing.median:.2f} x {case.rival_name}"] if rival else []
    texts += [case.comparison.answer] if case.comparison else []
    place = max(1.0 if rival else 0.0, timing.high / whole) + 0.02
    axes.text(place, row, "  ".join(filter(None, texts)), va="center", fontsize=7)


def _as_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=_DPI, metadata={"Software": None})
    return stream.getvalue()
