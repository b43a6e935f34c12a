"""The steps of a run behind the update: diagnose, plan, then build, smoke and perf by target."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rich.console

from cuwheel.build.early_check import check_early
from cuwheel.errors import CuwheelError, PreflightError
from cuwheel.matrix.state import read_state, read_states
from cuwheel.matrix.table import print_states, show_counts
from cuwheel.nightly.baselines import baseline_path, keep_baseline, read_baseline
from cuwheel.nightly.gpus import lock_names
from cuwheel.nightly.record import Step
from cuwheel.system.console import Console
from cuwheel.system.gpu_lock import HELD_VARIABLE
from cuwheel.workspace.failure_record import failure_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from cuwheel.diagnose.facts.gpus import Gpu
    from cuwheel.matrix.state import Cell, CellState
    from cuwheel.nightly.recorder import Recorder
    from cuwheel.perf.records import PerfRun

    ChooseCells = Callable[[Console], tuple[Cell, ...]]


PERF_PAGES = ("perf.html", "perf.png", "perf.json")


@dataclass(frozen=True, kw_only=True)
class CycleOptions:
    """What a run does.

    Attributes:
        choose: gives the cells; it tells a console what it leaves out.
        are_named: a person named the cells: one that can't be built here is a failure.
        build: options of `build` besides a cell's own.
        smoke: likewise of `smoke`.
        perf: likewise of `perf`.
        reports: the folder of all reports, where the baselines are.
        gpus: those that perf may use.
        driver: release of their driver.
        no_gpu: why there is none.
    """

    choose: ChooseCells
    are_named: bool
    build: tuple[str, ...]
    smoke: tuple[str, ...]
    perf: tuple[str, ...]
    reports: Path
    gpus: tuple[Gpu, ...]
    driver: str
    no_gpu: str


def engine_command(*words: str) -> tuple[str, ...]:
    """A command of the engine as a program of its own."""
    return (sys.executable, "-m", "cuwheel", *words)


def run_cycle(asked: CycleOptions, recorder: Recorder) -> None:
    """Run every step; one that fails keeps no other from being run.

    Wheels that are up to date come first, so that a long build doesn't keep them from being tried.

    Args:
        asked: what is to be done.
        recorder: takes the steps.
    """
    recorder.run_step("diagnose", engine_command("diagnose"))
    states = _plan(asked, recorder)
    works = {
        state.cell.id: _smoke(state.cell, asked, recorder) for state in states if not state.is_due
    }
    by_target: dict[str, list[CellState]] = {}
    for state in states:
        by_target.setdefault(state.cell.job.target.name, []).append(state)
    for group in sorted(by_target.values(), key=lambda one: sum(cell.is_due for cell in one)):
        works |= {one.cell.id: _build(one.cell, asked, recorder) for one in group if one.is_due}
        if asked.gpus:
            has_wheel = any(works[one.cell.id] for one in group)
            _measure(group[0].cell, asked, recorder, has_wheel=has_wheel)
    if states and not asked.gpus:
        recorder.skip("perf", asked.no_gpu)


def _plan(asked: CycleOptions, recorder: Recorder) -> tuple[CellState, ...]:
    """The cells of this run and how they stand; what can't be built here is told and left out."""
    log = recorder.log_path("plan")
    fault: CuwheelError | None = None
    started = time.monotonic()
    with log.open("a") as stream, recorder.console.stage("plan"):
        terminal = rich.console.Console(file=stream, width=120, soft_wrap=True)
        told = Console(terminal)
        try:
            states = read_states(asked.choose(told))
            print_states(states, terminal, told)
            impossible = {} if asked.are_named else _impossible_here(states, terminal)
        except CuwheelError as error:
            terminal.print(str(error), markup=False)
            states, impossible, fault = (), {}, error
    recorder.add(
        Step(
            name="plan",
            state="failed" if fault else "passed",
            detail=fault.what if fault else show_counts(states),
            seconds=time.monotonic() - started,
            log=str(log.relative_to(recorder.folder)),
            explanation=str(fault or ""),
        )
    )
    for why, count in Counter(impossible.values()).items():
        names = [name for name, other in impossible.items() if other == why]
        more = f" and {count - 1} more" if count > 1 else ""
        recorder.skip("build", f"not on this machine: {why}", about=f"{names[0]}{more}")
    return tuple(
        one for one in states if one.kind != "impossible" and one.cell.id not in impossible
    )


def _impossible_here(states: Iterable[CellState], terminal: rich.console.Console) -> dict[str, str]:
    """Cells that are due and can't be built here, and why: no such Python, no lock, no room."""
    found = {}
    for state in states:
        if not state.is_due:
            continue
        try:
            check_early(state.cell.job)
        except CuwheelError as error:
            terminal.print(f"{error}\n", markup=False)
            found[state.cell.id] = _reason(error, state.cell.id)
    return found


def _reason(error: CuwheelError, cell: str) -> str:
    """One problem says itself; of several, which a PreflightError holds, the first does."""
    several = error.why.splitlines()[:1] if isinstance(error, PreflightError) else ()
    return ": ".join((error.what.removeprefix(f"{cell}: "), *several))


def _smoke(cell: Cell, asked: CycleOptions, recorder: Recorder) -> bool:
    """Try a wheel that is there; whether it works."""
    command = engine_command("smoke", *cell.options, *asked.smoke)
    return recorder.run_step("smoke", command, about=cell.id).state == "passed"


def _build(cell: Cell, asked: CycleOptions, recorder: Recorder) -> bool:
    """Build a cell, with its smoke test; whether that gave a wheel."""
    command = engine_command("build", *cell.options, *asked.build)
    record = failure_path(cell.job.workspace.dist, cell.id)
    log = record.with_suffix(".log")
    step = recorder.execute("build", command, about=cell.id, failure_log=log)
    wheel = read_state(cell).wheel
    if step.state == "passed":
        step = dataclasses.replace(step, detail=f"{wheel}, its smoke test among the stages")
    return recorder.add(step).state == "passed"


def _measure(cell: Cell, asked: CycleOptions, recorder: Recorder, *, has_wheel: bool) -> None:
    """Measure the newest wheel of a cell's target, and keep the figures that are good."""
    target, recipe = cell.job.target.name, cell.job.target.recipe
    probe = cell.job.target.root / "recipes" / "perf" / f"{recipe.folder}.py"
    if not has_wheel or not probe.is_file():
        why = f"{recipe.name} has no performance probe" if has_wheel else "no working wheel"
        recorder.skip("perf", why, about=target)
        return
    folder = recorder.folder / "perf" / target
    folder.mkdir(parents=True)
    gpu = asked.gpus[0]
    # The one whose baseline it is: CUDA counts in another order than the driver.
    held = f"{HELD_VARIABLE}={' '.join(lock_names(asked.gpus))}"
    chosen = ("env", held, *([f"CUDA_VISIBLE_DEVICES={gpu.uuid}"] if gpu.uuid else []))
    baseline = baseline_path(asked.reports, gpu, asked.driver, target)
    options = ["--history", str(asked.reports / "history" / target)]
    if read_baseline(baseline):
        options += ["--against", str(baseline)]
    elif baseline.is_file():
        recorder.console.note(f"perf {target}: {baseline} can't be read and is measured again")
    step = recorder.execute(
        "perf",
        (*chosen, *engine_command("perf", target, "--report", str(folder), *options, *asked.perf)),
        about=target,
        pages=_below(recorder.folder, folder),
    )
    if step.state == "passed":
        keep_baseline(folder / "perf.json", baseline)
        run = read_baseline(folder / "perf.json")
        step = dataclasses.replace(step, detail=_found(run) if run else "")
    recorder.add(step)


def _found(run: PerfRun) -> str:
    """What a run that passed says of the baseline: `causal-conv1d 1.6.1: the first figures`."""
    past = f"{run.answer}, against {run.against}" if run.answer else "the first results"
    return f"{run.package}: {past}"


def _below(report: Path, folder: Path) -> Sequence[str]:
    return [str((folder / name).relative_to(report)) for name in PERF_PAGES]
