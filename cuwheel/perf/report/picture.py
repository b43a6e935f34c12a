"""A run as a picture: each case beside its rival, its ceiling and the wheel it is compared with."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from cuwheel.perf.report.figures import show_rate, show_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from cuwheel.perf.records import CaseResult, PerfRun, Timing

_WIDTH = 11.0  # inches
_ROW = 0.42  # inches for a case
_EDGE = 1.9  # inches for titles and axis
_OURS, _RIVAL, _WRONG = "#2f6f9f", "#b8c4cc", "#c0392b"
_DPI = 110

mpl.rcParams["svg.hashsalt"] = "cuwheel"


def draw_run(run: PerfRun) -> bytes:
    """The picture of a run, as PNG.

    Bars are the time of a call as a share of what the rival takes, or of the call's own time where
    there is none; the number beside them is the time itself.
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
    """The time of one case in one run after another, as PNG.

    Args:
        runs: the oldest first, all of one GPU.
        case: its name.
    """
    found = [
        (run, one.timing) for run in runs for one in run.cases if one.name == case and one.timing
    ]
    figure = Figure(figsize=(_WIDTH, 2.2), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(found))
    medians = [timing.median * 1e3 for _, timing in found]
    spread = (
        [(timing.median - timing.low) * 1e3 for _, timing in found],
        [(timing.high - timing.median) * 1e3 for _, timing in found],
    )
    axes.errorbar(places, medians, yerr=spread, fmt="o-", color=_OURS, markersize=4)
    axes.set_xticks(places, [run.date[:10] for run, _ in found], fontsize=7, rotation=30)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("ms")
    axes.set_title(case, fontsize=9)
    return _as_png(figure)


def _draw_case(axes: Axes, row: int, case: CaseResult, timing: Timing) -> None:
    rival = case.rival_timing
    whole = rival.median if rival else timing.median
    draw = axes.barh
    if rival:
        draw(row, 1, height=0.72, color=_RIVAL)
    error = [[(timing.median - timing.low) / whole], [(timing.high - timing.median) / whole]]
    color = _WRONG if case.faults else _OURS
    draw(row, timing.median / whole, height=0.42, color=color, xerr=error, ecolor="#222")
    words = [show_seconds(timing.median), show_rate(case)]
    words += [f"{rival.median / timing.median:.2f} x {case.rival_name}"] if rival else []
    words += [case.comparison.answer] if case.comparison else []
    place = max(1.0 if rival else 0.0, timing.high / whole) + 0.02
    text = "  ".join(word for word in words if word)
    axes.text(place, row, text, va="center", fontsize=7)


def _as_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=_DPI, metadata={"Software": None})
    return stream.getvalue()
