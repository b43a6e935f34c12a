"""One run: workers started, the GPU looked at, every case checked, measured, judged."""

from __future__ import annotations

import contextlib
import datetime
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cuwheel.errors import UsageError
from cuwheel.perf import gate
from cuwheel.perf.gpu_state import GpuMonitor, merge_clocks
from cuwheel.perf.measured_case import compare_with_past, new_case
from cuwheel.perf.obstacles import (
    HEAT,
    check_alone,
    check_code,
    check_health,
    check_same_gpu,
    notes_of,
)
from cuwheel.perf.own_kernels import code_of_libraries, kernels_of
from cuwheel.perf.package import find_package
from cuwheel.perf.records import GpuFacts, PerfRun, SweepResult
from cuwheel.perf.rounds import Player, play
from cuwheel.perf.worker import OutOfGpuMemoryError, Worker, start_worker
from cuwheel.smoke.loaded_libraries import find_loaded_libraries, owners
from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuwheel.perf.measured_case import MeasuredCase
    from cuwheel.perf.package import InstalledPackage
    from cuwheel.perf.records import CaseResult
    from cuwheel.perf.worker import Place
    from cuwheel.system.console import Console

_GENERATIONS = 3  # of processes, until a comparison is decided


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """Requests to make at once.

    Attributes:
        requests: how many, at each number of clients.
        most: clients at most; from one on.
        model: a name or folder; None: random weights.
    """

    requests: int
    most: int
    model: str | None


@dataclass(frozen=True, kw_only=True)
class PerfRequest:
    """What is asked for.

    Attributes:
        recipe: whose probe it is.
        probe: its file.
        new: where the package is measured.
        wheel: its file's name; empty: what is installed.
        sha256: of the wheel.
        old: where the wheel is that it is compared with; None: with none.
        past: an earlier run that it is compared with; None: with none.
        against: what messages call that.
        tolerance: a share of the time; None: as the gate has it.
        is_quick: only the quick cases, with fewer rounds.
        is_shared: others may compute on the GPU meanwhile.
        sweep: requests to make at once; None: none.
        log: gets what the probes say.
    """

    recipe: str
    probe: Path
    new: Place
    log: Path
    wheel: str = ""
    sha256: str = ""
    old: Place | None = None
    past: PerfRun | None = None
    against: str = ""
    tolerance: float | None = None
    is_quick: bool = False
    is_shared: bool = False
    sweep: SweepRequest | None = None


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What the first worker and its GPU are: everything but the cases."""

    started: Mapping[str, Any]
    gpu: GpuFacts
    monitor: GpuMonitor
    package: InstalledPackage
    notes: tuple[str, ...]
    ceilings: Mapping[str, float]


def measure(asked: PerfRequest, console: Console) -> PerfRun:
    """Check and measure a package.

    Raises:
        GpuError: there is no GPU that it can be measured on.
        ProbeError: the probe can't be started, or its process died.
        UsageError: an earlier run is of another GPU.
    """
    return _Session(asked, console).run()


class _Session:
    def __init__(self, asked: PerfRequest, console: Console) -> None:
        self._asked = asked
        self._console = console
        self._cases: list[MeasuredCase] = []

    def run(self) -> PerfRun:
        with self._workers() as workers:
            found = self._start(workers)
            own = kernels_of(found.package.libraries, found.gpu.capability)
            for facts in found.started["cases"]:
                if facts["is_quick"] or not self._asked.is_quick:
                    self._cases.append(self._measure(facts, workers, found, own))
            libraries = _suppliers(workers[0], Path(found.started["site"]).resolve())
            sweep = tuple(self._sweep(workers[0], found.started))
        for generation in range(2, _GENERATIONS + 1):
            self._compare(found, generation - 1)
            self._repeat(found, own, generation)
        self._compare(found, _GENERATIONS)
        return self._finish(found, libraries, sweep)

    @contextlib.contextmanager
    def _workers(self) -> Iterator[list[Worker]]:
        """The new wheel's, and where another wheel is compared, two of the old one's."""
        asked = self._asked
        places = [asked.new] + ([asked.old, asked.old] if asked.old else [])
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(start_worker(place, asked.probe, asked.log)) for place in places
            ]

    def _start(self, workers: list[Worker]) -> _Found:
        """Start all workers, and see that the GPU gives figures that count."""
        with self._console.live("start") as line:
            line.show("importing")
            first = workers[0]
            started = _start_all(workers)
            gpu, monitor = self._look_at_gpu(started, workers)
            package = find_package(started["package"], started["module"])
            code = code_of_libraries(package.libraries)
            note = check_code(code, gpu, self._asked.wheel or package.name)
            line.show("ceilings: a copy and matrix products")
            return _Found(
                started=started,
                gpu=gpu,
                monitor=monitor,
                package=package,
                notes=(note,) if note else (),
                ceilings=first.ask("ceilings"),
            )

    def _look_at_gpu(
        self, started: Mapping[str, Any], workers: list[Worker]
    ) -> tuple[GpuFacts, GpuMonitor]:
        asked, facts = self._asked, dict(started["gpu"])
        monitor = GpuMonitor(facts["uuid"])
        state = monitor.state([one.pid for one in workers])
        gpu = GpuFacts(**facts, driver=state.driver)
        check_health(state, gpu)
        if asked.old or asked.past:
            check_alone(state, gpu, is_shared=asked.is_shared)
        if asked.past:
            check_same_gpu(asked.past, gpu, asked.against)
        return gpu, monitor

    def _measure(
        self, facts: Mapping[str, Any], workers: list[Worker], found: _Found, own: frozenset[str]
    ) -> MeasuredCase:
        """Check a case and measure it for the first time."""
        case = new_case(facts)
        if facts["gpus"] > found.gpu.gpus:
            case.skip(f"it needs {facts['gpus']} GPUs")
            return case
        with self._console.live(case.name) as line:
            line.show("checked and measured")
            try:
                self._play(case, workers, found, own, factor=1)
            except OutOfGpuMemoryError:
                needs = show_size(facts["memory"] * len(workers))
                case.skip(f"too little GPU memory: about {needs} needed")
        return case

    def _play(
        self,
        case: MeasuredCase,
        workers: list[Worker],
        found: _Found,
        own: frozenset[str],
        *,
        factor: int,
    ) -> None:
        prepared = [
            worker.ask("prepare", case=case.name, checks=worker is workers[0]) for worker in workers
        ]
        case.judge_results(prepared[0], own)
        if not case.facts["is_timed"] or case.result.faults:
            return
        players = [
            Player(worker=worker, whose="package", seconds=answer["seconds"])
            for worker, answer in zip(workers, prepared, strict=True)
        ]
        if case.facts["has_rival"]:
            seconds = prepared[0]["rival_seconds"]
            players.append(Player(worker=workers[0], whose="rival", seconds=seconds))
        with found.monitor.watching() as clocks:
            play(case.name, players, is_quick=self._asked.is_quick, factor=factor)
        case.clocks += clocks
        lists = (case.new, case.old, case.again) if self._asked.old else (case.new,)
        for times, player in zip(lists, players, strict=False):  # the rival comes last
            times.extend(player.rounds)
        if case.facts["has_rival"]:
            case.rival += players[-1].rounds
        for worker in workers:
            found_last = worker.ask("finish", case=case.name, checks=worker is workers[0])
            case.judge_last(found_last["error"])

    def _compare(self, found: _Found, repeats: int) -> None:
        if self._asked.old:
            tolerance = self._asked.tolerance or gate.TOLERANCES[found.started["clock"]]
            for case in self._cases:
                case.compare(tolerance, repeats)

    def _repeat(self, found: _Found, own: frozenset[str], generation: int) -> None:
        """Measure undecided cases again in fresh processes, longer than before."""
        undecided = [case for case in self._cases if case.is_undecided]
        if not undecided:
            return
        with self._workers() as workers:
            _start_all(workers)
            for case in undecided:
                with self._console.live(case.name) as line:
                    line.show(f"undecided; measured again, time {generation}")
                    self._play(case, workers, found, own, factor=generation)

    def _sweep(self, worker: Worker, started: Mapping[str, Any]) -> Iterator[SweepResult]:
        asked = self._asked.sweep
        if asked is None:
            return
        if not started["sweeps"]:
            raise UsageError(
                f"--sweep: the probe of {self._asked.recipe} has no requests to make",
                why=f"{self._asked.probe.name} defines no `sweep`",
                fix="leave --sweep out",
            )
        for clients in range(1, asked.most + 1):
            with self._console.live("sweep") as line:
                line.show(f"{asked.requests} requests, {clients} at once")
                found = worker.ask(
                    "sweep", clients=clients, requests=asked.requests, model=asked.model
                )
            yield _sweep_result(clients, found)

    def _finish(
        self,
        found: _Found,
        libraries: tuple[tuple[str, str, str], ...],
        sweep: tuple[SweepResult, ...],
    ) -> PerfRun:
        asked, started = self._asked, found.started
        cases = tuple(case.finish(found.ceilings) for case in self._cases)
        if past := asked.past:
            cases = tuple(
                compare_with_past(case, past, found.ceilings, asked.tolerance) for case in cases
            )
        clocks = merge_clocks([one for case in self._cases for one in case.clocks])
        if set(HEAT) & set(clocks.slowed_by):
            cases = tuple(map(_undecided_if_same, cases))
        answers = [case.comparison.answer for case in cases if case.comparison]
        return PerfRun(
            recipe=asked.recipe,
            package=found.package.name,
            wheel=asked.wheel,
            sha256=asked.sha256 or found.package.sha256,
            date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            gpu=found.gpu,
            framework=started["framework"],
            python=started["python"],
            clock=started["clock"],
            variables=started["variables"],
            ceilings=dict(found.ceilings),
            cases=cases,
            libraries=libraries,
            sweep=sweep,
            notes=(*found.notes, *notes_of(found.monitor.state(()), clocks)),
            against=asked.against,
            answer=gate.worst(answers) if answers else "",
        )


def _start_all(workers: list[Worker]) -> Mapping[str, Any]:
    """Start all at once, as imports take seconds; what the first one is."""
    with ThreadPoolExecutor(len(workers)) as pool:
        return next(iter(list(pool.map(Worker.start, workers))))


def _undecided_if_same(case: CaseResult) -> CaseResult:
    """What was measured while heat held the clocks down can't be called the same."""
    if not case.comparison or case.comparison.answer != "SAME":
        return case
    return replace(case, comparison=replace(case.comparison, answer="UNDECIDED"))


def _sweep_result(clients: int, found: Mapping[str, Any]) -> SweepResult:
    p50, p95 = (float(np.percentile(found["seconds"], part)) for part in (50, 95))
    count = len(found["seconds"])
    return SweepResult(
        clients=clients,
        what=found["what"],
        requests=count,
        rate=count / found["total"],
        tokens=found["tokens"] / found["total"],
        p50=p50,
        p95=p95,
        memory=found["memory"],
    )


def _suppliers(worker: Worker, site: Path) -> tuple[tuple[str, str, str], ...]:
    """CUDA's, the framework's and the driver's libraries of the process, and who supplied them."""
    files = [Path(path) for path in worker.ask("libraries")]
    loads = find_loaded_libraries(files, site, owners(site), "", None)
    return tuple((one.soname, one.location, one.supplier) for one in loads)
