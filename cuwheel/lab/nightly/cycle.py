"""The steps of a run after the update: diagnose, plan, then build, smoke and perf by target.

`perf` compares with baselines: the last good figures of each target and GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import rich.console

from cuwheel.base.errors import CuwheelError, PreflightError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.gpu_lock import HELD_VARIABLE, lock_name
from cuwheel.base.system.regular_files import read_bytes, read_text
from cuwheel.build.pipeline.checks import check
from cuwheel.build.workspace.failure_record import failure_path
from cuwheel.build.workspace.request import OF_RUN, OF_TARGET
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.lab.matrix.state import Cell, CellState, read_state, read_states
from cuwheel.lab.matrix.table import print_states, show_counts
from cuwheel.lab.nightly.record import Step
from cuwheel.lab.nightly.recorder import Recorder
from cuwheel.lab.perf.records import PerfRun, read_run

ChooseCells = Callable[[Console], tuple[Cell, ...]]

_OF_SMOKE = (*OF_TARGET, *(name for name in OF_RUN if name != "jobs"))
_SANITIZED = datetime.timedelta(days=7)  # between two runs under compute-sanitizer
PERF_PAGES = ("perf.html", "perf.png", "perf.json")


@dataclass(frozen=True, kw_only=True)
class NightlyOptions:
    """Options of the session, and the GPUs that it uses.

    Attributes:
        choose: returns the cells; it prints on a console which ones it leaves out.
        are_named: the user named the cells: one that can't be built here is a failure.
        is_quick: `perf` measures less.
        has_sanitizer: compute-sanitizer is installed.
        time_limit: minutes.
        on_failure: a shell command for a run that fails; empty without one.
        arguments: of this process, with which it restarts itself after its update.
        continues: the run's folder, if it restarted itself after its update.
        no_gpu: why there is no GPU.
        new_frameworks: returns the newest releases that no recipe names, `torch==2.16.0`.
        day_zero: options of `day-zero` for these.
    """

    choose: ChooseCells
    are_named: bool
    reports: Path
    is_quick: bool = False
    has_sanitizer: bool = False
    time_limit: int
    keep: int
    on_failure: str = ""
    waits: bool = True
    updates: bool = False
    as_json: bool = False
    arguments: tuple[str, ...] = ()
    continues: Path | None = None
    gpus: tuple[DriverGpu, ...] = ()
    driver: str = ""
    no_gpu: str = ""
    new_frameworks: Callable[[], Sequence[str]] = tuple
    day_zero: tuple[str, ...] = ()


def engine_command(*arguments: str) -> tuple[str, ...]:
    """Return a command of the engine as a program of its own."""
    return (sys.executable, "-m", "cuwheel", *arguments)


def run_cycle(options: NightlyOptions, recorder: Recorder) -> None:
    """Run every step, also after one that failed.

    Wheels that are up to date come first, so that they are tried before a long build.
    """
    recorder.run_step("diagnose", engine_command("diagnose"))
    _try_frameworks(options, recorder)
    states = _plan(options, recorder)
    works: dict[str, bool] = {}
    by_target: dict[str, list[CellState]] = {}
    for state in states:
        cell = state.cell
        if not state.is_due:
            command = engine_command("smoke", *cell.request.argv("targets", *_OF_SMOKE))
            step = recorder.run_step("smoke", command, about=cell.id)
            works[cell.id] = step.state == "passed"
        by_target.setdefault(state.cell.job.target.name, []).append(state)
    for group in sorted(by_target.values(), key=lambda group: sum(cell.is_due for cell in group)):
        due = [state.cell for state in group if state.is_due]
        works |= {cell.id: _build(cell, recorder) for cell in due}
        if options.gpus:
            has_wheel = any(works[state.cell.id] for state in group)
            _measure(group[0].cell, options, recorder, has_wheel=has_wheel)
    if states and not options.gpus:
        recorder.skip("perf", options.no_gpu)


def _try_frameworks(options: NightlyOptions, recorder: Recorder) -> None:
    """Try the recipes with each new release of a framework, once; again while one is unknown."""
    try:
        pins = options.new_frameworks()
    except CuwheelError as error:
        recorder.skip("day-zero", f"the newest frameworks aren't known: {error.what}")
        return
    for pin in pins:
        verdicts = options.reports / "day-zero" / f"{pin}.json"
        if verdicts.is_file() and '"state": "unknown"' not in read_text(verdicts):
            recorder.skip("day-zero", f"tried before: {verdicts}", about=pin)
            continue
        verdicts.parent.mkdir(parents=True, exist_ok=True)
        files = ("--json", str(verdicts), "--page", str(verdicts.with_suffix(".html")))
        command = engine_command("day-zero", pin, "--quick", *files, *options.day_zero)
        recorder.run_step("day-zero", command, about=pin)


def _plan(options: NightlyOptions, recorder: Recorder) -> tuple[CellState, ...]:
    """Return the states of the cells to run; those that can't be built here are skipped."""
    log = recorder.log_path("plan")
    failure: CuwheelError | None = None
    started = time.monotonic()
    with log.open("a") as stream, recorder.console.stage("plan"):
        terminal = rich.console.Console(file=stream, width=120, soft_wrap=True)
        console = Console(terminal)
        try:
            states = read_states(options.choose(console))
            print_states(states, terminal, console)
            impossible = {} if options.are_named else _impossible_here(states, terminal)
        except CuwheelError as error:
            terminal.print(str(error), markup=False)
            states, impossible, failure = (), {}, error
    recorder.mask(log)
    recorder.add(
        Step(
            name="plan",
            state="failed" if failure else "passed",
            detail=failure.what if failure else show_counts(states),
            seconds=time.monotonic() - started,
            log=str(log.relative_to(recorder.folder)),
            explanation=str(failure or ""),
        )
    )
    for why, count in Counter(impossible.values()).items():
        first = next(name for name, reason in impossible.items() if reason == why)
        more = f" and {count - 1} more" if count > 1 else ""
        recorder.skip("build", f"not on this machine: {why}", about=f"{first}{more}")
    return tuple(
        state for state in states if state.kind != "impossible" and state.cell.id not in impossible
    )


def _impossible_here(states: Iterable[CellState], terminal: rich.console.Console) -> dict[str, str]:
    """Return the due cells that can't be built here, with the reason: Python, lock, disk space."""
    reasons = {}
    for state in states:
        if not state.is_due:
            continue
        try:
            check(state.cell.job, "early")
        except CuwheelError as error:
            terminal.print(f"{error}\n", markup=False)
            # A PreflightError lists several problems.
            first = error.why.splitlines()[:1] if isinstance(error, PreflightError) else ()
            reason = ": ".join((error.what.removeprefix(f"{state.cell.id}: "), *first))
            reasons[state.cell.id] = reason
    return reasons


def _build(cell: Cell, recorder: Recorder) -> bool:
    command = engine_command("build", *cell.request.argv())
    log = failure_path(cell.job.workspace.dist, cell.id).with_suffix(".log")
    step = recorder.execute("build", command, about=cell.id, failure_log=log)
    wheel = read_state(cell).wheel
    if step.state == "passed":
        step = dataclasses.replace(step, detail=f"{wheel}, its smoke test among the stages")
    return recorder.add(step).state == "passed"


def _measure(cell: Cell, options: NightlyOptions, recorder: Recorder, *, has_wheel: bool) -> None:
    """Measure the newest wheel of a cell's target, and keep its figures if they are better."""
    target, recipe = cell.job.target.name, cell.job.target.recipe
    probe = cell.job.target.root / "recipes" / "perf" / f"{recipe.folder}.py"
    if not has_wheel or not probe.is_file():
        why = f"{recipe.name} has no performance probe" if has_wheel else "no working wheel"
        recorder.skip("perf", why, about=target)
        return
    gpu = options.gpus[0]
    baseline = baseline_path(options.reports, gpu, options.driver, target)
    try:
        before = read_baseline(baseline)
        has_baseline = before is not None and not before.is_busy
    except UsageError as error:
        detail = f"{error.what}: {error.why}; move it away to begin with new figures"
        recorder.add(Step(name="perf", about=target, state="failed", detail=detail))
        return
    folder = recorder.folder / "perf" / target
    history = options.reports / "history" / target
    folder.mkdir(parents=True)
    # By UUID: CUDA numbers GPUs in another order than the driver.
    held = f"{HELD_VARIABLE}={' '.join(lock_names(options.gpus))}"
    variables = (held, *([f"CUDA_VISIBLE_DEVICES={gpu.uuid}"] if gpu.uuid else []))
    command = engine_command(
        *("perf", target, "--report", str(folder)),
        *("--history", str(history)),
        *(("--against", str(baseline)) if has_baseline else ()),
        *cell.request.argv("dist", "sandbox", "offline"),
        *(("--quick",) if options.is_quick else ()),
        *(("--sanitize",) if options.has_sanitizer and not was_sanitized(history) else ()),
    )
    step = recorder.execute(
        "perf",
        ("env", *variables, *command),
        about=target,
        pages=[str((folder / name).relative_to(recorder.folder)) for name in PERF_PAGES],
    )
    if step.state == "passed":
        keep_baseline(folder / "perf.json", baseline)
        if run := read_baseline(folder / "perf.json"):
            result = f"{run.answer}, against {run.against}" if run.answer else "the first results"
            step = dataclasses.replace(step, detail=f"{run.package}: {result}")
    recorder.add(step)


def was_sanitized(history: Path) -> bool:
    """Return True if one of a week's runs was under compute-sanitizer."""
    week = datetime.datetime.now(datetime.timezone.utc) - _SANITIZED
    for path in history.glob("*.json"):
        if path.name >= week.strftime("%Y%m%dT%H%M%S"):
            with contextlib.suppress(UsageError):  # of another release of cuwheel
                if read_run(path).sanitizing:
                    return True
    return False


def baseline_path(reports: Path, gpu: DriverGpu, driver: str, target: str) -> Path:
    """Return a baseline's path, `baselines/NVIDIA-H200-GPU-1a2b…-580/causal-conv1d-130.json`.

    Each card has baselines of its own, and so has each driver release.
    """
    name = re.sub(r"[^\w.]+", "-", f"{gpu.name} {gpu.uuid} {driver}").strip("-")
    return reports / "baselines" / name / f"{target}.json"


def read_baseline(baseline: Path) -> PerfRun | None:
    """Read a target's baseline; None: there is none yet.

    Raises:
        UsageError: it is damaged, or another release of cuwheel wrote it. Without it a wheel that
            got slower would pass as the first.
    """
    return read_run(baseline) if os.path.lexists(baseline) else None


def keep_baseline(figures: Path, baseline: Path) -> bool:
    """Make a run's figures the next baseline, where there is none or they are better.

    Equal figures don't replace it: a wheel that gets a little slower each night would never be
    slower than the night before.

    Args:
        figures: `perf.json` of a run that passed; False is returned if it doesn't exist, or if
            other processes used the GPU.

    Raises:
        OSError: the baseline can't be written.
        UsageError: figures or baseline can't be read.
    """
    new, old = read_baseline(figures), read_baseline(baseline)
    if new is None or new.is_busy:  # beside other processes a wheel is slower than it is
        return False
    if old is None or old.is_busy or _is_better(new, old):
        write_atomically(baseline, read_bytes(figures))
    return True


def _is_better(new: PerfRun, old: PerfRun) -> bool:
    """Return True if a run was faster than its baseline, and timed all cases of that."""
    timed, required = ({case.name for case in run.cases if case.timing} for run in (new, old))
    return new.answer == "FASTER" and required <= timed and (old.is_quick or not new.is_quick)


def usable_gpus(driver: Driver) -> tuple[DriverGpu, ...]:
    """Return the GPUs that CUDA shows to a program started here; all where it doesn't say.

    CUDA is asked, since a number in `CUDA_VISIBLE_DEVICES` counts by its own order.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars
    """
    if driver.visible == 0 or not driver.version:
        return ()
    return tuple(gpu for gpu in driver.gpus if gpu.uuid in driver.visible_uuids) or driver.gpus


def lock_names(gpus: Sequence[DriverGpu]) -> tuple[str, ...]:
    """Return the names of their locks, sorted, so that no two runs wait for each other.

    Without a GPU it is the machine's lock.
    """
    names = {lock_name(gpu.uuid or f"gpu-{gpu.index}") for gpu in gpus}
    return tuple(sorted(names)) or (lock_name("machine"),)
