"""Figures become a baseline where there is none, or where they are better."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cuwheel.nightly.baselines import keep_baseline

if TYPE_CHECKING:
    from pathlib import Path


def write_run(path: Path, answer: str, *timed: str) -> Path:
    cases: list[dict[str, object]] = [{"name": name, "timing": {"median": 1.0}} for name in timed]
    cases.append({"name": "only checked", "timing": None})
    path.write_text(json.dumps({"answer": answer, "cases": cases}))
    return path


def test_first_figures_are_kept(tmp_path: Path) -> None:
    figures = write_run(tmp_path / "perf.json", "", "a")

    assert keep_baseline(figures, tmp_path / "baselines" / "x.json")
    assert (tmp_path / "baselines" / "x.json").read_text() == figures.read_text()


@pytest.mark.parametrize(
    ("answer", "timed", "is_next"),
    [
        ("FASTER", ("a", "b"), True),
        ("FASTER", ("a", "b", "c"), True),
        ("FASTER", ("a",), False),
        ("SAME", ("a", "b"), False),
    ],
)
def test_only_what_is_faster_in_all_cases_is_next(
    tmp_path: Path, answer: str, timed: tuple[str, ...], *, is_next: bool
) -> None:
    baseline = write_run(tmp_path / "baseline.json", "", "a", "b")
    figures = write_run(tmp_path / "perf.json", answer, *timed)

    assert keep_baseline(figures, baseline)
    assert (baseline.read_text() == figures.read_text()) is is_next


def test_run_without_figures(tmp_path: Path) -> None:
    assert not keep_baseline(tmp_path / "perf.json", tmp_path / "baseline.json")
