"""The session `nightly`: the cycle under its lock and time limit, and the report of it."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import os
import platform
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.gpus import find_driver
from cuwheel.diagnose.session import callers_environment
from cuwheel.errors import CommandFailedError, NightlyFailedError, NightlyTimeError
from cuwheel.model.nox_sessions import VERBS
from cuwheel.nightly.cycle import CycleOptions, run_cycle
from cuwheel.nightly.failure_hook import run_hook, write_summary
from cuwheel.nightly.folders import new_run_folder, publish, remove_old_runs
from cuwheel.nightly.gpus import lock_names, usable_gpus
from cuwheel.nightly.page import PAGE
from cuwheel.nightly.record import OUT_OF_TIME, NightlyRun, Step, now, read_run
from cuwheel.nightly.recorder import Recorder
from cuwheel.nightly.update import commit_of, update_checkout
from cuwheel.paths import project_folder
from cuwheel.system.gpu_lock import hold_gpus, lock_folder
from cuwheel.system.quantities import plural, show_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cuwheel.diagnose.facts.gpus import Driver, Gpu
    from cuwheel.nightly.cycle import ChooseCells
    from cuwheel.system.console import Console


_MINUTE = 60.0  # seconds
_SHOWN = 5  # steps without time that the error names
CONTINUE = "--continue-run"  # the option that a run gives itself behind its update


@dataclass(frozen=True, kw_only=True)
class NightlyOptions:
    """What was asked for.

    Attributes:
        choose: see `CycleOptions`, as the four behind it.
        are_named: …
        build: …
        smoke: …
        perf: …
        reports: the folder of all reports.
        time_limit: minutes for all of it.
        keep: how many reports stay.
        on_failure: a shell's command for a run that fails; empty without one.
        waits: for a GPU that another run uses.
        updates: take the checkout to its newest commit first.
        as_json: print the report's data to standard output.
        arguments: of the session, for the run of the updated checkout.
        continues: the folder of a run that has just updated the checkout.
    """

    choose: ChooseCells
    are_named: bool
    build: tuple[str, ...]
    smoke: tuple[str, ...]
    perf: tuple[str, ...]
    reports: Path
    time_limit: int
    keep: int
    on_failure: str
    waits: bool
    updates: bool
    as_json: bool
    arguments: tuple[str, ...]
    continues: Path | None = None


def nightly_session(asked: NightlyOptions, console: Console) -> None:
    """Run the cycle, publish its report, and say how it went.

    Args:
        asked: what is to be done.
        console: shows how it goes.

    Raises:
        GpuInUseError: another run has the GPU.
        NightlyFailedError: a step failed.
        NightlyTimeError: no step failed, but not all could be run.
        OSError: the report can't be written.
    """
    environ = callers_environment(os.environ)
    driver = find_driver(environ)
    gpus = usable_gpus(driver, environ)
    begun = time.monotonic()
    folder = lock_folder(os.environ)
    holder = f"{getpass.getuser()}'s process {os.getpid()}, since {now()}, in {asked.reports}"
    with hold_gpus(
        [folder / name for name in lock_names(gpus)],
        holder,
        on_wait=console.note,
        gives_up=lambda: not asked.waits or time.monotonic() - begun > asked.time_limit * _MINUTE,
    ):
        recorder = _begin(asked, driver, gpus, console)
        with _published(recorder, asked):
            if (
                asked.updates
                and not recorder.run.steps
                and update_checkout(project_folder(), recorder)
            ):
                _start_updated(asked, recorder.folder)
            run_cycle(_cycle_options(asked, driver, gpus), recorder)
    if asked.as_json:
        recorder.console.answer(recorder.run)
    _raise_failure(recorder)


def _begin(
    asked: NightlyOptions, driver: Driver, gpus: tuple[Gpu, ...], console: Console
) -> Recorder:
    if asked.continues:
        run, folder = read_run(asked.continues), asked.continues
    else:
        run = NightlyRun(
            started=now(),
            host=platform.node(),
            commit=commit_of(project_folder()),
            gpus=tuple(gpu.name for gpu in gpus),
            driver=driver.version,
        )
        folder = new_run_folder(asked.reports, run.started)
    started = datetime.datetime.fromisoformat(run.started)
    passed = datetime.datetime.now(tz=datetime.timezone.utc) - started
    left = asked.time_limit * _MINUTE - passed.total_seconds()
    console.note(f"the report: {folder / PAGE}")
    return Recorder(folder, run, time.monotonic() + left, console)


def _cycle_options(asked: NightlyOptions, driver: Driver, gpus: tuple[Gpu, ...]) -> CycleOptions:
    faults = (driver.cuda_fault, driver.nvml_fault)
    why = next((one for one in faults if one), "the driver lists none")
    return CycleOptions(
        choose=asked.choose,
        are_named=asked.are_named,
        build=asked.build,
        smoke=asked.smoke,
        perf=asked.perf,
        reports=asked.reports,
        gpus=gpus,
        driver=driver.version,
        no_gpu=f"no usable GPU: {why}",
    )


@contextlib.contextmanager
def _published(recorder: Recorder, asked: NightlyOptions) -> Iterator[None]:
    """Finish the report however the block ends, and tell of a failure."""
    try:
        yield
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
        recorder.add(Step(name="nightly", state="failed", detail=fault))
        raise
    except BaseException:  # Ctrl-C, or SIGTERM
        recorder.add(Step(name="nightly", state="ended", detail="a person or the system ended it"))
        raise
    finally:
        recorder.finish()
        write_summary(recorder.run, recorder.folder)
        publish(recorder.folder)
        remove_old_runs(recorder.folder, asked.keep)
        has_failed = recorder.run.state == "failed" or recorder.run.late_steps
        if has_failed and asked.on_failure:
            _tell(asked.on_failure, recorder)


def _tell(command: str, recorder: Recorder) -> None:
    try:
        status = run_hook(command, recorder.folder)
    except CommandFailedError as error:
        status = error.status
    if status:
        log = recorder.folder / "logs" / "on-failure.log"
        recorder.console.warn(f"--on-failure ended with status {status}: {log}")


def _start_updated(asked: NightlyOptions, folder: Path) -> None:
    """Become the run of the new commit, in the environment that its lock asks for."""
    bare = "-P" if sys.version_info >= (3, 11) else "-s"
    environment = next(one.environment for one in VERBS if one.name == "nightly")
    command = (sys.executable, bare, "-m", "cuwheel.bootstrap", environment, "-m", "cuwheel")
    words = (*command, *asked.arguments, CONTINUE, str(folder))
    os.execve(sys.executable, words, os.environ)  # noqa: S606 - that's the point


def _raise_failure(recorder: Recorder) -> None:
    run, page = recorder.run, recorder.folder / PAGE
    recorder.console.note(f"{run.counts}, in {show_time(run.seconds)}")
    failed = [step for step in run.steps if step.state == "failed"]
    late = run.late_steps
    why = [f"{step.title}: {step.detail}" for step in failed]
    why += [f"{OUT_OF_TIME}: {_shown(late)}"] if late else []
    if failed:
        raise NightlyFailedError(
            f"{len(failed)} of {plural(len(run.steps), 'step')} failed",
            why="\n".join(why),
            fix=f"see their logs: {page}",
        )
    if late:
        raise NightlyTimeError(
            f"the time limit was too short for {len(late)} of {plural(len(run.steps), 'step')}",
            why="\n".join(why),
            fix=f"raise it with --time-limit MINUTES, or select fewer targets; {page}",
        )


def _shown(steps: Sequence[Step]) -> str:
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    return ", ".join(step.title for step in steps[:_SHOWN]) + more
