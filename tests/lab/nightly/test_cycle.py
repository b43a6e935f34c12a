"""Steps of a run in their order, and its baselines."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import as_file
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.lab.matrix.state import Cell
from cuwheel.lab.nightly import cycle
from cuwheel.lab.nightly.cycle import (
    keep_baseline,
    lock_names,
    read_baseline,
    run_cycle,
    usable_gpus,
)
from cuwheel.lab.nightly.record import NightlyRun
from cuwheel.lab.perf.records import Sanitizing
from cuwheel.lab.perf.report import keep_run
from tests.support.lab.nightly_runs import GPU, make_options, make_recorder, make_unbuilt_cell
from tests.support.lab.perf_runs import make_case, make_run

# A stand-in for the engine's commands: it logs its calls, and exits as FAILING requires.
_ENGINE = """
import json, os, pathlib, sys
folder, command, *arguments = sys.argv[1:]
with open(f"{folder}/calls", "a") as stream:
    stream.write(json.dumps([command, *arguments]) + "\\n")
if command == "perf":
    report = pathlib.Path(arguments[arguments.index("--report") + 1])
    (report / "perf.json").write_text(os.environ["FIGURES"])
    (report / "perf.html").write_text("a page")
sys.exit(command in os.environ.get("FAILING", "").split())
"""
FIRST = as_file(make_run())
_BASELINE = "baselines/NVIDIA-H200-GPU-1a2b-580.159.04/tiny-cuda-130.json"


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def stand_in(*arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-c", _ENGINE, str(tmp_path), *arguments)

    monkeypatch.setattr(cycle, "engine_command", stand_in)
    monkeypatch.setenv("FIGURES", FIRST)
    return tmp_path / "nightly"


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """A cell that isn't built; its recipe has a probe."""
    (tmp_path / "recipes" / "perf").mkdir(parents=True)
    (tmp_path / "recipes" / "perf" / "tiny_cuda.py").write_text('"""A probe."""\n')
    return make_unbuilt_cell(tmp_path)


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
    assert _calls(reports)[1] == ["build", *cell.request.argv()]
    assert run.steps[3].detail == "measured 1.0: the first results"
    assert run.steps[3].pages == ("perf/tiny-cuda-130/perf.html", "perf/tiny-cuda-130/perf.json")


@pytest.mark.parametrize(("days", "is_due"), [(6, False), (8, True)])
def test_each_week_a_run_is_sanitized(
    reports: Path, cell: Cell, days: int, *, is_due: bool
) -> None:
    tool = Sanitizing(tool="memcheck", cases=("a",), problems=(), seconds=1.0)
    date = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
    keep_run(
        make_run(date=date.isoformat(timespec="seconds"), sanitizing=(tool,)),
        reports / "history" / "tiny-cuda-130",
    )

    _run(reports, "one", cell)
    assert "--sanitize" not in _calls(reports)[-1]
    _run(reports, "two", cell, has_sanitizer=True)
    assert ("--sanitize" in _calls(reports)[-1]) == is_due


def test_first_figures_are_the_next_baseline(
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


def test_unreadable_baseline_fails_the_step(reports: Path, cell: Cell) -> None:
    _run(reports, "one", cell)
    (reports / _BASELINE).write_text("cut o")
    before = len(_calls(reports))

    run = _run(reports, "two", cell)

    assert run.state == "failed"
    assert not any("perf" in call for call in _calls(reports)[before:])
    assert (reports / _BASELINE).read_text() == "cut o"


def test_continues_after_failed_steps(
    reports: Path, cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILING", "diagnose build")

    run = _run(reports, "one", cell, make_unbuilt_cell(tmp_path, python="3.12"))

    assert [(step.name, step.state) for step in run.steps] == [
        ("diagnose", "failed"),
        ("plan", "passed"),
        ("build", "failed"),
        ("build", "failed"),
        ("perf", "skipped"),
    ]
    assert run.steps[-1].detail == "no working wheel"


def test_skips_perf_without_gpu_or_probe(reports: Path, cell: Cell) -> None:
    without_gpu = _run(reports, "one", cell, gpus=())
    (cell.job.target.root / "recipes" / "perf" / "tiny_cuda.py").unlink()
    without_probe = _run(reports, "two", cell)

    assert without_gpu.steps[-1].detail == "there is none"
    assert without_gpu.state == "running"
    assert without_probe.steps[-1].detail == "tiny-cuda has no performance probe"


def test_cell_that_cannot_be_built_here_is_skipped_unless_named(
    reports: Path, tmp_path: Path
) -> None:
    lockless = make_unbuilt_cell(tmp_path, name="lockless")

    run = _run(reports, "one", lockless, are_named=False)
    named = _run(reports, "two", lockless)

    skipped = next(step for step in run.steps if step.name == "build")
    assert skipped.state == "skipped"
    assert skipped.detail.startswith("not on this machine: ")
    assert next(step for step in named.steps if step.name == "build").state == "passed"


def test_failing_plan_is_a_failed_step(reports: Path) -> None:
    def choose(_: Console) -> tuple[Cell, ...]:
        raise DownloadError("the index doesn't answer", why="no network", fix="wait")

    run = _run(reports, "one", choose=choose)

    assert run.state == "failed"
    assert run.steps[-1].detail == "the index doesn't answer"
    assert "no network" in (reports / "one" / "logs" / "plan.log").read_text()


def write_run(path: Path, answer: Any, *timed: str) -> Path:
    cases = [make_case(name) for name in timed]
    run = make_run(*cases, make_case("only checked", timing=None), answer=answer)
    path.write_text(as_file(run))
    return path


def test_first_figures_are_kept(tmp_path: Path) -> None:
    assert not keep_baseline(tmp_path / "perf.json", tmp_path / "baselines" / "x.json")
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
def test_replaces_only_if_faster_in_all_cases(
    tmp_path: Path, answer: str, timed: tuple[str, ...], *, is_next: bool
) -> None:
    baseline = write_run(tmp_path / "baseline.json", "", "a", "b")
    figures = write_run(tmp_path / "perf.json", answer, *timed)

    assert keep_baseline(figures, baseline)
    assert (baseline.read_text() == figures.read_text()) is is_next


@pytest.mark.parametrize("text", ["", "{", '{"version": 1, "cases": []}'])
def test_refuses_a_damaged_baseline(tmp_path: Path, text: str) -> None:
    figures = write_run(tmp_path / "perf.json", "", "a")
    baseline = tmp_path / "baseline.json"
    baseline.write_text(text)

    with pytest.raises(UsageError):
        read_baseline(baseline)
    with pytest.raises(UsageError):
        keep_baseline(figures, baseline)
    assert baseline.read_text() == text


def test_quick_figures_replace_no_complete_ones(tmp_path: Path) -> None:
    baseline = write_run(tmp_path / "baseline.json", "", "a")
    figures = tmp_path / "perf.json"
    figures.write_text(as_file(make_run(make_case("a"), answer="FASTER", is_quick=True)))

    assert keep_baseline(figures, baseline)
    assert baseline.read_text() != figures.read_text()


def test_sorts_locks() -> None:
    second = DriverGpu(index=1, name="NVIDIA H200", uuid="GPU-0000")

    assert lock_names([GPU, second]) == ("cuwheel-GPU-0000.lock", "cuwheel-GPU-1a2b.lock")
    assert lock_names([]) == ("cuwheel-machine.lock",)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (("GPU-0000",), ["GPU-0000"]),
        ((), ["GPU-1a2b", "GPU-0000"]),
        (("GPU-of-a-slice",), ["GPU-1a2b", "GPU-0000"]),
    ],
)
def test_uses_gpus_that_cuda_shows(visible: tuple[str, ...], expected: list[str]) -> None:
    gpus = (GPU, DriverGpu(index=1, name="NVIDIA H200", uuid="GPU-0000"))
    driver = Driver(version="580", gpus=gpus, visible=2, visible_uuids=visible)

    assert [gpu.uuid for gpu in usable_gpus(driver)] == expected


def test_ignores_invisible_gpus() -> None:
    assert usable_gpus(Driver(version="580", gpus=(GPU,), visible=0)) == ()
    assert usable_gpus(Driver()) == ()


def test_new_framework_is_tried_once(reports: Path, cell: Cell) -> None:
    def pins() -> tuple[str, ...]:
        return ("torch==2.16.0",)

    first = _run(reports, "one", cell, new_frameworks=pins)
    verdicts = reports / "day-zero" / "torch==2.16.0.json"
    verdicts.write_text('{"state": "works"}')
    second = _run(reports, "two", cell, new_frameworks=pins)

    assert [run.steps[1].state for run in (first, second)] == ["passed", "skipped"]
    [call] = [call for call in _calls(reports) if call[0] == "day-zero"]
    assert call[1:5] == ["torch==2.16.0", "--quick", "--json", str(verdicts)]


def test_index_out_of_reach_fails_no_night(reports: Path, cell: Cell) -> None:
    def pins() -> tuple[str, ...]:
        raise DownloadError("the index can't be reached")

    run = _run(reports, "one", cell, new_frameworks=pins)

    assert run.steps[1].state == "skipped"
