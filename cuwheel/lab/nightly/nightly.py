"""The session `nightly`: the cycle within its lock and time limit, and its report."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.caller import Caller
from cuwheel.base.errors import CommandFailedError, StepsFailedError
from cuwheel.base.system.console import Console
from cuwheel.base.system.gpu_lock import hold_gpus, lock_folder
from cuwheel.base.system.process import run as run_program
from cuwheel.base.system.quantities import first_of, plural, show_time
from cuwheel.build.recipe.nox_sessions import VERBS
from cuwheel.check.diagnose.diagnose import callers_environment
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu, find_driver
from cuwheel.lab.nightly.cycle import (
    NightlyOptions,
    lock_names,
    run_cycle,
    usable_gpus,
)
from cuwheel.lab.nightly.page import PAGE, run_hook, write_summary
from cuwheel.lab.nightly.record import (
    OUT_OF_TIME,
    NightlyRun,
    Step,
    new_run_folder,
    now,
    publish,
    read_run,
    remove_old_runs,
)
from cuwheel.lab.nightly.recorder import Recorder

_MINUTE = 60.0  # seconds
_SHOWN = 5  # steps without time that the error names, changed files that a step names
CONTINUE = "--continue-run"  # the option with which a run restarts itself after its update


def run_nightly_cycle(options: NightlyOptions, console: Console, caller: Caller) -> None:
    """Run the cycle and publish its report.

    Raises:
        GpuError: another run has the GPU.
        StepsFailedError: a step failed, or not all could be run.
        OSError: the report can't be written.
    """
    driver = find_driver(callers_environment(caller.environ))
    gpus = usable_gpus(driver)
    begun = time.monotonic()
    folder = lock_folder(caller.environ)
    holder = f"{getpass.getuser()}'s process {os.getpid()}, since {now()}, in {options.reports}"
    with hold_gpus(
        [folder / name for name in lock_names(gpus)],
        holder,
        on_wait=console.note,
        gives_up=lambda: (
            not options.waits or time.monotonic() - begun > options.time_limit * _MINUTE
        ),
    ):
        recorder = _begin(options, driver, gpus, console, caller)
        with _published(recorder, options):
            is_update = options.updates and not recorder.run.steps
            if is_update and update_checkout(caller.project, recorder):
                _start_updated(options, recorder.folder, caller.environ)
            why = driver.cuda_fault or driver.nvml_fault or "the driver lists none"
            no_gpu = f"no usable GPU: {why}"
            run_cycle(replace(options, gpus=gpus, driver=driver.version, no_gpu=no_gpu), recorder)
    if options.as_json:
        recorder.console.answer(recorder.run)
    _raise_failure(recorder)


def _begin(
    options: NightlyOptions,
    driver: Driver,
    gpus: tuple[DriverGpu, ...],
    console: Console,
    caller: Caller,
) -> Recorder:
    if options.continues:
        run, folder = read_run(options.continues), options.continues
    else:
        run = NightlyRun(
            started=now(),
            host=platform.node(),
            commit=commit_of(caller.project, caller.environ),
            gpus=tuple(gpu.name for gpu in gpus),
            driver=driver.version,
        )
        folder = new_run_folder(options.reports, run.started)
    started = datetime.datetime.fromisoformat(run.started)
    elapsed = datetime.datetime.now(tz=datetime.timezone.utc) - started
    remaining = options.time_limit * _MINUTE - elapsed.total_seconds()
    console.note(f"the report: {folder / PAGE}")
    deadline = time.monotonic() + remaining
    return Recorder(folder, run, deadline, console, environ=caller.environ)


@contextlib.contextmanager
def _published(recorder: Recorder, options: NightlyOptions) -> Iterator[None]:
    """Finish the report however the block ends, and run the hook after a failure."""
    try:
        yield
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
        recorder.add(Step(name="nightly", state="failed", detail=detail))
        raise
    except BaseException:  # Ctrl-C, or SIGTERM
        recorder.add(Step(name="nightly", state="ended", detail="a person or the system ended it"))
        raise
    finally:
        recorder.finish()
        write_summary(recorder.run, recorder.folder)
        publish(recorder.folder)
        remove_old_runs(recorder.folder, options.keep)
        has_failed = recorder.run.state == "failed" or recorder.run.late_steps
        if has_failed and options.on_failure:
            _run_hook(options.on_failure, recorder)


def _run_hook(command: str, recorder: Recorder) -> None:
    try:
        status = run_hook(command, recorder.folder, recorder.environ)
    except CommandFailedError as error:
        status = error.status
    if status:
        log = recorder.folder / "logs" / "on-failure.log"
        recorder.console.warn(f"--on-failure ended with status {status}: {log}")


def _start_updated(options: NightlyOptions, folder: Path, environ: Mapping[str, str]) -> None:
    """Replace this process by the run of the new commit, in the environment of its lock."""
    bare = "-P" if sys.version_info >= (3, 11) else "-s"
    environment = next(verb.environment for verb in VERBS if verb.name == "nightly")
    command = (sys.executable, bare, "-m", "cuwheel.bootstrap", environment, "-m", "cuwheel")
    argv = (*command, *options.arguments, CONTINUE, str(folder))
    os.execve(sys.executable, argv, environ)  # noqa: S606 - that's the point


def _raise_failure(recorder: Recorder) -> None:
    run, page = recorder.run, recorder.folder / PAGE
    recorder.console.note(f"{run.counts}, in {show_time(run.seconds)}")
    failed = [step for step in run.steps if step.state == "failed"]
    late = run.late_steps
    why = [f"{step.title}: {step.detail}" for step in failed]
    if late:
        why.append(f"{OUT_OF_TIME}: {first_of([step.title for step in late], _SHOWN)}")
    if failed:
        raise StepsFailedError(
            f"{len(failed)} of {plural(len(run.steps), 'step')} failed",
            why="\n".join(why),
            fix=f"see their logs: {page}",
            anchor="nightly-failed",
        )
    if late:
        raise StepsFailedError(
            f"the time limit was too short for {len(late)} of {plural(len(run.steps), 'step')}",
            why="\n".join(why),
            fix=f"raise it with --time-limit MINUTES, or select fewer targets; {page}",
            anchor="nightly-time",
        )


def commit_of(checkout: Path, environ: Mapping[str, str]) -> str:
    """Return the commit that is checked out; empty where the folder is no git repository."""
    return _git(checkout, environ, "rev-parse", "HEAD")


def update_checkout(checkout: Path, recorder: Recorder) -> bool:
    """Run `git pull --ff-only`, and return True if another commit is checked out then.

    It refuses where local commits or changes are in the way.
    """
    before = commit_of(checkout, recorder.environ)
    command = ("git", "-C", str(checkout), "pull", "--ff-only", "--no-rebase")
    step = recorder.execute("update", command)
    after = commit_of(checkout, recorder.environ)
    moved = f"{before[:12]} to {after[:12]}" if after != before else "nothing new"
    detail = step.detail or moved
    # Changed files are built too, so the commit alone doesn't identify the build.
    status = _git(checkout, recorder.environ, "status", "--porcelain")
    if files := [line[3:] for line in status.splitlines()]:
        detail += f"; changed here: {first_of(files, _SHOWN)}"
    recorder.add(replace(step, detail=detail))
    recorder.replace_run(commit=after)
    return after != before


def _git(checkout: Path, environ: Mapping[str, str], *arguments: str) -> str:
    env = {**environ, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        command = ("git", "-C", str(checkout), *arguments)
        done = run_program(command, env=env, check=False, timeout=limits.GIT)
    except CommandFailedError:  # git isn't installed
        return ""
    return "" if done.status else done.output.rstrip()
