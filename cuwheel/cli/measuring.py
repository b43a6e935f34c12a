"""What the session `perf` does: which wheel is measured where, what is written, how it ends."""

from __future__ import annotations

import contextlib
import getpass
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cli.parser import new_parser
from cuwheel.cli.target_choice import named_targets
from cuwheel.cli.target_jobs import requested_job
from cuwheel.cli.target_options import add_target_options
from cuwheel.diagnose.facts.gpus import find_driver
from cuwheel.diagnose.session import callers_environment
from cuwheel.errors import (
    GpuError,
    ProbeError,
    SlowerError,
    UndecidedError,
    UsageError,
    WrongResultError,
)
from cuwheel.model.catalogue import load_catalogue
from cuwheel.nightly.gpus import lock_names, usable_gpus
from cuwheel.paths import default_cache, given_path, project_folder, project_roots
from cuwheel.perf.obstacles import check_has_driver, driver_folders
from cuwheel.perf.records import read_run
from cuwheel.perf.report import history
from cuwheel.perf.report.page import page_of
from cuwheel.perf.report.picture import draw_run
from cuwheel.perf.report.table import print_run
from cuwheel.perf.request import PerfRequest, SweepRequest
from cuwheel.perf.session import measure
from cuwheel.perf.unpacked import link_neighbours
from cuwheel.perf.wheel_choice import check_framework, check_probe, newest_wheel, read_wheel
from cuwheel.perf.worker import Place
from cuwheel.pypi.uv import unpack_into
from cuwheel.sandbox.confinement import Confinement
from cuwheel.smoke.packages import install_wheel
from cuwheel.system.files import file_lock, write_atomically
from cuwheel.system.gpu_lock import HELD_VARIABLE, hold_gpus, lock_folder
from cuwheel.system.output.documents import as_file
from cuwheel.system.output.terminal import report_terminal
from cuwheel.system.quantities import plural
from cuwheel.verify.published import read_published

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.perf.records import PerfRun
    from cuwheel.perf.wheel_choice import ChosenWheel
    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Job


def measure_wheel(given: argparse.Namespace, console: Console) -> None:
    """Check and measure a wheel, and say whether it is slower than another.

    Args:
        given: the options of the session `perf`.
        console: shows how it goes.

    Raises:
        GpuError: there is no GPU that it can be measured on.
        WrongResultError: a result is wrong, or other kernels ran.
        SlowerError: it is slower.
        UndecidedError: that stays undecided.
        CuwheelError: no wheel, no probe, no environment, or a probe that fails.
    """
    if given.model and not given.sweep:
        raise UsageError(
            f"--model {given.model} is only for concurrent requests",
            why="without --sweep there are none, and the model would never be loaded",
            fix="add --sweep, or leave out --model",
        )
    entries = load_catalogue(project_roots())
    target = named_targets("perf", [given.target])[0] if given.target else None
    chosen = _choose(given, entries, target)
    entry = chosen.entry if chosen else target[0] if target else None
    if entry is None:
        raise UsageError(
            "there is nothing to measure",
            why="dist/ has no wheel with a probe, and neither a target nor --wheel was given",
            fix="build one, `nox -s build-causal-conv1d-130`, or pass one: -- --wheel FILE",
        )
    check_has_driver(entry.name)
    folder = (
        given_path(given.report)
        if given.report
        else project_folder() / "reports" / "perf" / entry.name
    )
    folder.mkdir(parents=True, exist_ok=True)
    past = read_run(given_path(given.against)) if _is_record(given.against) else None
    with tempfile.TemporaryDirectory(prefix="cuwheel-perf-") as scratch:
        places = _Places(given=given, entry=entry, scratch=Path(scratch), console=console)
        old = read_wheel(given_path(given.against), entries) if given.against and not past else None
        if old and old.entry.name != entry.name:
            raise UsageError(
                f"{old.path.name} can't be compared with a wheel of {entry.name}",
                why=f"it is a wheel of {old.entry.name}",
                fix="choose another wheel of the same package",
            )
        asked = PerfRequest(
            recipe=entry.name,
            probe=check_probe(entry),
            new=places.make(chosen, target, "new"),
            old=places.make(old, target, "old") if old else None,
            wheel=chosen.path.name if chosen else "",
            sha256=chosen.sha256 if chosen else "",
            past=past,
            against=Path(given.against).name if given.against else "",
            tolerance=given.tolerance,
            is_quick=given.quick,
            is_shared=given.shared_gpu,
            sweep=_sweep(given),
            log=folder / "perf.log",
        )
        with (
            _gpus_held(given, console),
            file_lock(folder / ".lock", on_wait=lambda: console.note("another run: waiting")),
        ):
            asked.log.unlink(missing_ok=True)
            run = measure(asked, console)
            _report(run, folder, given, console)
    _judge(run, folder)


@contextlib.contextmanager
def _gpus_held(given: argparse.Namespace, console: Console) -> Iterator[None]:
    """No other run measures on this GPU meanwhile; with --shared-gpu one may.

    A nightly run holds the locks of its GPUs for the runs that it starts.
    """
    gpus = usable_gpus(find_driver(callers_environment(os.environ)), os.environ)
    held = os.environ.get(HELD_VARIABLE, "").split()
    names = [] if given.shared_gpu else [one for one in lock_names(gpus) if one not in held]
    with hold_gpus(
        [lock_folder(os.environ) / name for name in names],
        f"{getpass.getuser()}'s process {os.getpid()}, `nox -s perf`",
        on_wait=console.note,
        gives_up=lambda: False,
    ):
        yield


def _choose(
    given: argparse.Namespace,
    entries: tuple[CatalogueEntry, ...],
    target: tuple[CatalogueEntry, str] | None,
) -> ChosenWheel | None:
    """The wheel that is measured; None: what is installed.

    Raises:
        UsageError: there is none.
    """
    if given.wheel:
        chosen = read_wheel(given_path(given.wheel), entries)
        if target and chosen.entry.name != target[0].name:
            raise UsageError(
                f"{chosen.path.name} is not a wheel of {given.target}",
                why=f"it is a wheel of {chosen.entry.name}",
                fix="leave out the target: the wheel determines it",
            )
        return chosen
    dist = given_path(given.dist) if given.dist else project_folder() / "dist"
    found = (
        None if given.python and target and not given.dist else newest_wheel(dist, entries, target)
    )
    if target and not found and not given.python:
        raise UsageError(
            f"{dist} has no wheel of {given.target}",
            why="none has been built yet",
            fix=f"nox -s build-{given.target}, or pass one: -- --wheel FILE",
        )
    return found


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Makes the environments that wheels are measured in."""

    given: argparse.Namespace
    entry: CatalogueEntry
    scratch: Path
    console: Console

    def make(
        self, wheel: ChosenWheel | None, target: tuple[CatalogueEntry, str] | None, age: str
    ) -> Place:
        """Where a wheel is measured: on top of an environment, or in one of its own."""
        given, name = self.given, wheel.path.name if wheel else self.entry.name
        folder = self.scratch / age
        if given.python:
            # Not resolved: a virtual environment's interpreter is a link to another.
            python = given_path(given.python)
            if wheel:
                log = self.scratch / "install.log"
                unpack_into(
                    folder, wheel.path, wheel.sha256, python=python, cache=default_cache(), log=log
                )
                link_neighbours(folder, python)
            self.console.note(f"{name} runs in your own environment, without a sandbox")
            return Place(python=python, folder=folder if wheel else None, name=name)
        tag = wheel.tag if wheel else ""
        if wheel is None or not (tag or target):
            raise UsageError(
                f"{name} doesn't say which CUDA it is for, so no environment can be made for it",
                why="its version has no local part such as +cu130",
                fix="pass the interpreter of an environment that has its requirements: -- "
                "--python /path/to/bin/python",
            )
        python, job = self._install(wheel, tag or (target[1] if target else ""), folder)
        confinement = self._confinement(folder, job, name)
        return Place(python=python, folder=None, name=name, is_own=True, confinement=confinement)

    def _confinement(self, folder: Path, job: Job, name: str) -> Confinement | None:
        """The environment and the GPUs; weights of a model where they are a folder."""
        model = _model(self.given)
        if model and not Path(model).is_dir():
            self.console.note(f"{name} runs without a sandbox: {model} may have to be downloaded")
            return None
        if job.sandbox == "none":
            self.console.note(f"{name} runs without a sandbox, because this system allows none")
        return Confinement(
            sandbox=job.sandbox,
            environment=(folder / "environment").resolve(),
            base=job.python.path,
            folder=(folder / "own").resolve(),
            read=(*driver_folders(os.environ), *([Path(model)] if model else ())),
            has_gpu=True,
        )

    def _install(self, wheel: ChosenWheel, tag: str, folder: Path) -> tuple[Path, Job]:
        """An environment with the wheel and what its recipe's lock pins for it; its job."""
        parser = new_parser("perf", "")
        add_target_options(parser)
        asked = parser.parse(["--any-driver", *read_published(wheel.path).options])
        asked.offline = self.given.offline
        release = wheel.python or next(iter(asked.python), "")
        job = requested_job(wheel.entry, tag, release, asked, self.console)
        check_framework(wheel, job.target.framework)
        job.workspace.log_folder.mkdir(parents=True, exist_ok=True)
        base = job.python.path
        folder.mkdir()
        environment = folder.resolve() / "environment"
        return install_wheel(environment, base, wheel.path, wheel.sha256, job), job


def _sweep(given: argparse.Namespace) -> SweepRequest | None:
    if not given.sweep:
        return None
    return SweepRequest(requests=given.requests, most=given.sweep_max, model=_model(given))


def _model(given: argparse.Namespace) -> str | None:
    """What `--model` names: a folder by its path, with links followed, else a name of a hub's."""
    folder = given_path(given.model).resolve() if given.model else None
    return str(folder) if folder and folder.is_dir() else given.model


def _report(run: PerfRun, folder: Path, given: argparse.Namespace, console: Console) -> None:
    picture = draw_run(run)
    past = given_path(given.history) if given.history else folder / "history"
    history.keep(run, past)
    write_atomically(folder / "perf.json", as_file(run))
    write_atomically(folder / "perf.png", picture)
    page = page_of(run, picture, history.read_history(past, run))
    write_atomically(folder / "perf.html", page)
    if given.json:
        console.answer(run)
    else:
        print_run(run, report_terminal(), console)
    console.note(f"report: {folder / 'perf.html'}, with perf.png and perf.json next to it")


def _judge(run: PerfRun, folder: Path) -> None:
    """End as the run deserves.

    Raises:
        WrongResultError: a result is wrong, or other kernels ran.
        ProbeError: a case raised.
        GpuError: every case was left out.
        SlowerError: it is slower.
        UndecidedError: that stays undecided.
    """
    more = f"{folder / 'perf.html'} has every case"
    outcome = run.outcome
    if outcome == "wrong":
        raise WrongResultError(
            f"{run.package} gives wrong results on {run.gpu_names}",
            why="\n".join(run.faults),
            fix=f"{more}; compare with upstream's own wheel (--wheel), and report it upstream if "
            "that is wrong too",
        )
    if outcome == "failed":
        raise ProbeError(
            f"{run.package}: {plural(len(run.failures), 'case')} of its probe failed",
            why="\n".join(run.failures),
            fix=f"the whole output is in {folder / 'perf.log'}; {more}",
        )
    if outcome == "not run":
        raise GpuError(
            f"{run.package}: no case could be run on {run.gpu_names}",
            why="\n".join(f"{case.name}: {case.skipped}" for case in run.cases),
            fix="free its memory (`nvidia-smi` lists the processes that use it), or use a larger "
            "GPU",
        )
    told = [
        f"{case.name}: {case.comparison.ratio:.3f} times the time of {run.against} "
        f"({case.comparison.low:.3f} to {case.comparison.high:.3f}; the old one against itself "
        f"{case.comparison.noise:.1%})".replace("%", " %")
        for case in run.cases
        if case.comparison and case.comparison.answer == run.answer
    ]
    if outcome == "slower":
        raise SlowerError(
            f"{run.package} is slower than {run.against}",
            why="\n".join(told),
            fix=f"{more}, with the kernels that took longest",
        )
    if outcome == "undecided":
        raise UndecidedError(
            f"it is undecided whether {run.package} is slower than {run.against}",
            why="\n".join(told),
            fix="run it again when nothing else uses the GPU, or with a wider --tolerance",
        )


def _is_record(text: str | None) -> bool:
    return bool(text) and str(text).endswith(".json")
