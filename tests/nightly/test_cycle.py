"""Which steps a run has, in which order, and which figures become the next night's baseline."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import DownloadError
from cuwheel.nightly import cycle
from cuwheel.nightly.cycle import run_cycle
from cuwheel.system.output.documents import as_file
from tests.support.measured import make_run
from tests.support.nights import make_cell, make_options, make_recorder

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.matrix.state import Cell
    from cuwheel.nightly.record import NightlyRun
    from cuwheel.system.console import Console

# Stands in for the engine's commands: writes down how it was called, and ends as told.
_ENGINE = """
import json, os, pathlib, sys
folder, command, *words = sys.argv[1:]
with open(f"{folder}/calls", "a") as stream:
    stream.write(json.dumps([command, *words]) + "\\n")
if command == "perf":
    report = pathlib.Path(words[words.index("--report") + 1])
    (report / "perf.json").write_text(os.environ["FIGURES"])
    (report / "perf.html").write_text("a page")
sys.exit(command in os.environ.get("FAILING", "").split())
"""
FIRST = as_file(make_run())
_BASELINE = "baselines/NVIDIA-H200-GPU-1a2b-580.159.04/tiny-cuda-130.json"


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def stand_in(*words: str) -> tuple[str, ...]:
        return (sys.executable, "-c", _ENGINE, str(tmp_path), *words)

    monkeypatch.setattr(cycle, "engine_command", stand_in)
    monkeypatch.setenv("FIGURES", FIRST)
    return tmp_path / "nightly"


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """A cell that isn't built; its recipe has a probe."""
    (tmp_path / "recipes" / "perf").mkdir(parents=True)
    (tmp_path / "recipes" / "perf" / "tiny_cuda.py").write_text('"""A probe."""\n')
    return make_cell(tmp_path)


def _calls(reports: Path) -> list[list[str]]:
    return [json.loads(line) for line in (reports.parent / "calls").read_text().splitlines()]


def _run(reports: Path, name: str, *cells: Cell, **changes: object) -> NightlyRun:
    recorder = make_recorder(reports / name)
    run_cycle(make_options(reports, *cells, **changes), recorder)
    return recorder.run


def test_runs_each_step_of_a_cell(reports: Path, cell: Cell) -> None:
    run = _run(reports, "one", cell)

    assert [step.title for step in run.steps] == [
        "diagnose",
        "plan",
        f"build {cell.id}",
        "perf tiny-cuda-130",
    ]
    assert run.steps[1].detail == "1 cell: 1 missing"
    assert _calls(reports)[1] == ["build", *cell.options, "--jobs", "2"]
    assert run.steps[3].detail == "measured 1.0: the first results"
    assert run.steps[3].pages == ("perf/tiny-cuda-130/perf.html", "perf/tiny-cuda-130/perf.json")


def test_figures_that_passed_are_the_next_baseline(
    reports: Path, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(reports, "one", cell)
    assert "--against" not in _calls(reports)[-1]
    assert (reports / _BASELINE).read_text() == FIRST

    monkeypatch.setenv("FIGURES", as_file(make_run(answer="SLOWER")))
    monkeypatch.setenv("FAILING", "perf")
    run = _run(reports, "two", cell)

    assert run.state == "failed"
    assert _calls(reports)[-1][-2:] == ["--against", str(reports / _BASELINE)]
    assert str(reports / "history" / "tiny-cuda-130") in _calls(reports)[-1]
    assert (reports / _BASELINE).read_text() == FIRST


def test_baseline_that_cannot_be_read_is_made_anew(reports: Path, cell: Cell) -> None:
    _run(reports, "one", cell)
    (reports / _BASELINE).write_text("cut o")

    _run(reports, "two", cell)

    assert "--against" not in _calls(reports)[-1]
    assert (reports / _BASELINE).read_text() == FIRST


def test_step_that_fails_keeps_no_other_from_being_run(
    reports: Path, cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILING", "diagnose build")

    run = _run(reports, "one", cell, make_cell(tmp_path, python="3.12"))

    assert [(step.name, step.state) for step in run.steps] == [
        ("diagnose", "failed"),
        ("plan", "passed"),
        ("build", "failed"),
        ("build", "failed"),
        ("perf", "skipped"),
    ]
    assert run.steps[-1].detail == "no working wheel"


def test_says_what_is_skipped_without_gpu_or_probe(reports: Path, cell: Cell) -> None:
    without_gpu = _run(reports, "one", cell, gpus=())
    (cell.job.target.root / "recipes" / "perf" / "tiny_cuda.py").unlink()
    without_probe = _run(reports, "two", cell)

    assert without_gpu.steps[-1].detail == "there is none"
    assert without_gpu.state == "running"
    assert without_probe.steps[-1].detail == "tiny-cuda has no performance probe"


def test_cell_that_cannot_be_built_here_is_no_failure_unless_named(
    reports: Path, tmp_path: Path
) -> None:
    lockless = make_cell(tmp_path, name="lockless")

    run = _run(reports, "one", lockless, are_named=False)
    named = _run(reports, "two", lockless)

    skipped = next(step for step in run.steps if step.name == "build")
    assert skipped.state == "skipped"
    assert skipped.detail.startswith("not on this machine: ")
    assert next(step for step in named.steps if step.name == "build").state == "passed"


def test_plan_that_cannot_be_made_is_a_failed_step(reports: Path) -> None:
    def choose(_: Console) -> tuple[Cell, ...]:
        raise DownloadError("the index doesn't answer", why="no network", fix="wait")

    run = _run(reports, "one", choose=choose)

    assert run.state == "failed"
    assert run.steps[-1].detail == "the index doesn't answer"
    assert "no network" in (reports / "one" / "logs" / "plan.log").read_text()
