"""Figures become a baseline where there is none, or where they are better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.nightly.baselines import keep_baseline, read_baseline
from cuwheel.system.output.documents import as_file
from tests.support.measured import make_case, make_run

if TYPE_CHECKING:
    from pathlib import Path


def write_run(path: Path, answer: Any, *timed: str) -> Path:
    cases = [make_case(name) for name in timed]
    run = make_run(*cases, make_case("only checked", timing=None), answer=answer)
    path.write_text(as_file(run))
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


@pytest.mark.parametrize("text", ["", "{", '{"version": 1, "cases": []}'])
def test_baseline_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    figures = write_run(tmp_path / "perf.json", "", "a")
    baseline = tmp_path / "baseline.json"
    baseline.write_text(text)

    assert read_baseline(baseline) is None
    assert keep_baseline(figures, baseline)
    assert read_baseline(baseline) == read_baseline(figures)
