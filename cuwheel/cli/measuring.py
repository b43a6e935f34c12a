"""The measurement of the session `perf`: choice of wheel and environment, report, outcome."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuwheel.base.caller import Caller
from cuwheel.base.errors import GpuError, ProbeError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import file_lock, sha256_of_file
from cuwheel.base.system.folders.output_folder import check_files, check_output, claim, write_files
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.gpu_lock import HELD_VARIABLE, hold_gpus, lock_folder
from cuwheel.base.system.output.documents import as_file
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.quantities import plural
from cuwheel.build.environments.uv import unpack_into
from cuwheel.build.finish.smoke.packages import install_wheel
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.pinned import open_pinned
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.source import Folder
from cuwheel.build.sandbox.backends import choose_sandbox
from cuwheel.build.sandbox.confinement import Confinement, confine_environment
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.masking import PublicText
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.check.diagnose.diagnose import callers_environment
from cuwheel.check.diagnose.facts.environment import read_environment
from cuwheel.check.diagnose.facts.machine import find_driver
from cuwheel.cli.target_choice import folder_of, named_targets, read_request, requested_job
from cuwheel.lab.nightly.cycle import lock_names, usable_gpus
from cuwheel.lab.perf.gpu_state import check_has_driver, driver_folders
from cuwheel.lab.perf.measured_wheel import (
    ChosenWheel,
    check_framework,
    check_probe,
    link_neighbours,
    newest_wheel,
    read_wheel,
)
from cuwheel.lab.perf.measurement import measure
from cuwheel.lab.perf.page import draw_run, page_of
from cuwheel.lab.perf.probe_process import PerfEnvironment, PerfRequest, SweepRequest
from cuwheel.lab.perf.records import PerfRun, read_run
from cuwheel.lab.perf.report import PERF_FOLDER, keep_run, print_run, read_history
from cuwheel.lab.perf.sanitizer import check_sanitizer
from cuwheel.publish.rebuild.published import read_published


def measure_wheel(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Check and measure a wheel, and raise an error if it is slower than another.

    Args:
        args: the options of the session `perf`.

    Raises:
        GpuError: there is no GPU that it can be measured on.
        CuwheelError: as `_judge`; or no wheel, no probe, no environment, or a failed probe.
    """
    entries = load_catalogue(caller.roots)
    target = named_targets("perf", [args.target], caller)[0] if args.target else None
    chosen = _choose(args, entries, target, caller)
    entry = chosen.entry if chosen else target[0] if target else None
    if entry is None:
        raise UsageError(
            "there is nothing to measure",
            why="dist/ has no wheel with a probe, and neither a target nor --wheel was given",
            fix="build one, `nox -s build-causal-conv1d-130`, or pass one: -- --wheel FILE",
        )
    check_has_driver(entry.name)
    folder = folder_of(args.report, caller, f"reports/perf/{entry.name}")
    check_output(folder, PERF_FOLDER)
    check_files(folder, PERF_FOLDER)
    claim(folder, PERF_FOLDER)
    past = read_run(caller.path(args.against)) if (args.against or "").endswith(".json") else None
    with temporary_folder() as scratch:
        places = _Environments(
            args=args, entry=entry, scratch=scratch, console=console, caller=caller
        )
        old = read_wheel(caller.path(args.against), entries) if args.against and not past else None
        if old and old.entry.name != entry.name:
            raise UsageError(
                f"{old.path.name} can't be compared with a wheel of {entry.name}",
                why=f"it is a wheel of {old.entry.name}",
                fix="choose another wheel of the same package",
            )
        request = PerfRequest(
            recipe=entry.name,
            probe=check_probe(entry),
            new=places.make(chosen, target, "new"),
            old=places.make(old, target, "old") if old else None,
            wheel=chosen.path.name if chosen else "",
            sha256=chosen.sha256 if chosen else "",
            past=past,
            against=Path(args.against).name if args.against else "",
            against_sha256=sha256_of_file(caller.path(args.against)) if args.against else "",
            tolerance=args.tolerance,
            is_quick=args.quick,
            is_shared=args.shared_gpu,
            sweep=_sweep_of(args, caller),
            sanitizer=check_sanitizer(caller.environ) if args.sanitize else None,
            reference=_reference(chosen, target),
            **_upstream_tests(args, entry, scratch, console, caller),
            log=folder / "perf.log",
        )
        with (
            _gpus_held(args, console, caller.environ),
            file_lock(folder / ".lock", on_wait=lambda: console.note("another run: waiting")),
        ):
            request.log.unlink(missing_ok=True)
            text = PublicText({}, names=False)
            try:
                run = text.record(measure(request, console))
            finally:
                if request.log.is_file():
                    text.copy_file(request.log, request.log)
            _report(run, folder, args, console, caller)
    _judge(run, folder)


@contextlib.contextmanager
def _gpus_held(
    args: argparse.Namespace, console: Console, environ: Mapping[str, str]
) -> Iterator[None]:
    """Keep other runs from measuring on this GPU meanwhile, but with --shared-gpu.

    A nightly run holds the locks of its GPUs for the runs that it starts.
    """
    gpus = usable_gpus(find_driver(callers_environment(environ)))
    held = environ.get(HELD_VARIABLE, "").split()
    names = [] if args.shared_gpu else [name for name in lock_names(gpus) if name not in held]
    with hold_gpus(
        [lock_folder(environ) / name for name in names],
        f"{getpass.getuser()}'s process {os.getpid()}, `nox -s perf`",
        on_wait=console.note,
        gives_up=lambda: False,
    ):
        yield


def _choose(
    args: argparse.Namespace,
    entries: tuple[CatalogueEntry, ...],
    target: tuple[CatalogueEntry, str] | None,
    caller: Caller,
) -> ChosenWheel | None:
    """Return the wheel that is measured; None: the installed package."""
    if args.wheel:
        chosen = read_wheel(caller.path(args.wheel), entries)
        if target and chosen.entry.name != target[0].name:
            raise UsageError(
                f"{chosen.path.name} is not a wheel of {args.target}",
                why=f"it is a wheel of {chosen.entry.name}",
                fix="leave out the target: the wheel determines it",
            )
        return chosen
    dist = folder_of(args.dist, caller, "dist")
    uses_installed = args.python and target and not args.dist
    newest = None if uses_installed else newest_wheel(dist, entries, target)
    if target and not newest and not args.python:
        raise UsageError(
            f"{dist} has no wheel of {args.target}",
            why="none has been built yet",
            fix=f"nox -s build-{args.target}, or pass one: -- --wheel FILE",
        )
    return newest


@dataclass(frozen=True, kw_only=True)
class _Environments:
    """Environments that wheels are measured in."""

    args: argparse.Namespace
    entry: CatalogueEntry
    scratch: Path
    console: Console
    caller: Caller

    def make(
        self, wheel: ChosenWheel | None, target: tuple[CatalogueEntry, str] | None, age: str
    ) -> PerfEnvironment:
        """Return the place of a wheel: on top of an environment, or in one of its own."""
        args, name = self.args, wheel.path.name if wheel else self.entry.name
        folder = self.scratch / age
        if args.python:
            # Not resolved: a virtual environment's interpreter is a link to another.
            python = self.caller.path(args.python)
            if wheel:
                log = self.scratch / "install.log"
                unpack_into(
                    folder,
                    wheel.path,
                    wheel.sha256,
                    bare_workspace(self.console, self.caller),
                    python=python,
                    log=log,
                )
                link_neighbours(folder, python, self.caller.environ)
            place = self._in_callers_environment(python, folder, name)
            return PerfEnvironment(
                python=python,
                folder=folder if wheel else None,
                name=name,
                confinement=place,
                environ=self.caller.environ,
            )
        tag = wheel.tag if wheel else ""
        if wheel is None or not (tag or target):
            raise UsageError(
                f"{name} doesn't say which CUDA it is for, so no environment can be made for it",
                why="its version has no local part such as +cu130",
                fix="pass the interpreter of an environment that has its requirements: -- "
                "--python /path/to/bin/python",
            )
        python, job = self._install(wheel, tag or (target[1] if target else ""), folder)
        place = Confinement(
            sandbox=self._sandbox(name),
            environment=(folder / "environment").resolve(),
            base=job.python.path,
            folder=(self.scratch / f"{age}-own").resolve(),
            read=self._read(),
            has_gpu=True,
        )
        return PerfEnvironment(
            python=python,
            folder=None,
            name=name,
            is_own=True,
            confinement=place,
            environ=self.caller.environ,
        )

    def _in_callers_environment(self, python: Path, folder: Path, name: str) -> Confinement:
        """Return that environment, and the wheel on top of it, for reading."""
        own = (self.scratch / f"{folder.name}-own").resolve()
        environment = read_environment(python, callers_environment(self.caller.environ))
        place = confine_environment(
            environment.python,
            environment.prefix,
            environment.sites,
            self._sandbox(name),
            own,
        )
        wheel = (folder.resolve(),) if folder.exists() else ()
        return replace(place, read=(*place.read, *wheel, *self._read()))

    def _read(self) -> tuple[Path, ...]:
        """Return the driver's folders, and a folder of a model's weights."""
        model = _model(self.args, self.caller)
        folders = [Path(model)] if model and Path(model).is_dir() else []
        return (*driver_folders(self.caller.environ), *folders)

    def _sandbox(self, name: str) -> str:
        """Return the sandbox that the wheel's code runs in."""
        model = _model(self.args, self.caller)
        sandbox = choose_sandbox(self.args.sandbox)
        if sandbox == "none":
            self.console.note(f"{name} runs without a sandbox, as requested")
        elif model and not Path(model).is_dir():
            raise UsageError(
                f"--model {model} is no folder, and a sandbox has no network to download it",
                why="the wheel's code and the model's run in a sandbox",
                fix="download the model and give its folder; or add `--sandbox none`: their code "
                "can then do all that you can",
            )
        return sandbox

    def _install(self, wheel: ChosenWheel, tag: str, folder: Path) -> tuple[Path, Job]:
        """Make an environment with the wheel and its recipe's lock; return Python and job."""
        stated = read_request(read_published(wheel.path).request.argv(), self.caller)
        release = wheel.python or next(iter(stated.python), "")
        request = replace(
            stated,
            python=(release,) if release else (),
            any_driver=True,
            offline=self.args.offline,
            sandbox=self.args.sandbox,
        )
        job = requested_job(wheel.entry, tag, request, self.console, self.caller)
        check_framework(wheel, job.target.framework)
        job.workspace.log_folder.mkdir(parents=True, exist_ok=True)
        base = job.python.path
        folder.mkdir()
        environment = folder.resolve() / "environment"
        return install_wheel(environment, base, wheel.path, wheel.sha256, job), job


def _reference(chosen: ChosenWheel | None, target: tuple[CatalogueEntry, str] | None) -> str:
    """Return the SHA-256 of the wheel that the recipe names for comparison; empty: none."""
    entry, tag = (chosen.entry, chosen.tag) if chosen else target or (None, "")
    known = entry.recipe.references if entry and entry.recipe else {}
    return next((sha256 for name, sha256 in known.items() if name.replace(".", "") == tag), "")


def _upstream_tests(
    args: argparse.Namespace,
    entry: CatalogueEntry,
    scratch: Path,
    console: Console,
    caller: Caller,
) -> dict[str, Any]:
    """Return the tests that the recipe names, and the unpacked source; empty: none are to run."""
    recipe = entry.recipe
    if not args.upstream_tests or recipe is None:
        return {}
    pinned = recipe.filled_source
    if not recipe.upstream_tests or isinstance(pinned, Folder):
        raise UsageError(
            f"--upstream-tests: the recipe of {entry.name} names none",
            why="its field `upstream_tests` is empty, or its source is a folder",
            fix="name files or folders of its source there, or omit --upstream-tests",
        )
    workspace = bare_workspace(console, caller)
    fix = "check the network, or omit --upstream-tests"
    with open_pinned(pinned, workspace, fix, offline=args.offline) as archive:
        source = unpack_archive(archive.path, scratch / "source").top
    return {"upstream_tests": recipe.upstream_tests, "source": source}


def _sweep_of(args: argparse.Namespace, caller: Caller) -> SweepRequest | None:
    if not args.sweep:
        return None
    model = _model(args, caller)
    return SweepRequest(requests=args.requests, most=args.sweep_max, model=model)


def _model(args: argparse.Namespace, caller: Caller) -> str | None:
    """Return the real path of `--model`, or a name on a hub."""
    folder = caller.path(args.model).resolve() if args.model else None
    return str(folder) if folder and folder.is_dir() else args.model


def _report(
    run: PerfRun, folder: Path, args: argparse.Namespace, console: Console, caller: Caller
) -> None:
    picture = draw_run(run)
    past = caller.path(args.history) if args.history else folder / "history"
    with contextlib.suppress(UsageError):  # a release reads it here, also when it is replaced
        keep_run(read_run(folder / "perf.json"), folder / "history")
    keep_run(run, past)
    page = page_of(run, picture, read_history(past, run))
    report = {"perf.json": as_file(run).encode(), "perf.png": picture, "perf.html": page.encode()}
    write_files(folder, PERF_FOLDER, [report])
    if args.json:
        console.answer(run)
    else:
        print_run(run, report_terminal(), console)
    console.note(f"report: {folder / 'perf.html'}, with perf.png and perf.json next to it")


def _judge(run: PerfRun, folder: Path) -> None:
    """Raise the error of a run's outcome."""
    page = f"{folder / 'perf.html'} has every case"
    comparisons = [
        f"{case.name}: {case.comparison.ratio:.3f} times the time of {run.against} "
        f"({case.comparison.low:.3f} to {case.comparison.high:.3f}; the old one against itself "
        f"{case.comparison.noise:.1%})".replace("%", " %")
        for case in run.cases
        if case.comparison and case.comparison.answer == run.answer
    ]
    errors: dict[str, tuple[str, str, Sequence[str], str]] = {
        "wrong": (
            "wrong-result",
            f"{run.package} gives wrong results on {run.gpu_names}",
            run.faults,
            f"{page}; measure upstream's wheel too (--wheel), and report it there if it is wrong",
        ),
        "failed": (
            "probe",
            f"{run.package}: {plural(len(run.failures), 'case')} of its probe failed",
            run.failures,
            f"the whole output is in {folder / 'perf.log'}; {page}",
        ),
        "not run": (
            "gpu",
            f"{run.package}: no case could be run on {run.gpu_names}",
            [f"{case.name}: {case.skipped}" for case in run.cases],
            "free its memory (`nvidia-smi` lists the processes that use it), or use a larger GPU",
        ),
        "slower": (
            "slower",
            f"{run.package} is slower than {run.against}",
            comparisons,
            f"{page}, with the kernels that took longest",
        ),
        "undecided": (
            "undecided",
            f"it is undecided whether {run.package} is slower than {run.against}"
            if run.against
            else f"the run of {run.package} decides nothing",
            (*run.undecided, *comparisons),
            "run it again when nothing else uses the GPU, and with what is missing above",
        ),
    }
    if run.outcome in errors:
        anchor, what, reasons, fix = errors[run.outcome]
        kind = GpuError if anchor == "gpu" else ProbeError
        raise kind(what, why="\n".join(reasons), fix=fix, anchor=anchor)
