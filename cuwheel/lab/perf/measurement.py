"""A run of `perf`: starts the probe's processes; checks, measures and judges every case."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.quantities import show_size
from cuwheel.build.finish.smoke.loaded_libraries import find_loaded_libraries, owners
from cuwheel.build.inputs.checkouts import commit_of
from cuwheel.lab.perf import gate
from cuwheel.lab.perf.gpu_state import (
    HEAT,
    GpuMonitor,
    check_alone,
    check_code,
    check_comparable,
    check_health,
    merge_clocks,
    notes_of,
)
from cuwheel.lab.perf.measured_case import (
    MeasuredCase,
    code_of_libraries,
    compare_with_past,
    kernels_of,
    new_case,
)
from cuwheel.lab.perf.measured_wheel import MeasuredPackage, find_package
from cuwheel.lab.perf.probe_process import (
    CaseFailedError,
    OutOfGpuMemoryError,
    PerfRequest,
    Player,
    ProbeProcess,
    check_cases,
    check_imports,
    play,
    start_probe,
)
from cuwheel.lab.perf.records import Answer, CaseResult, Clocks, GpuFacts, PerfRun, SweepResult
from cuwheel.version import __version__

_GENERATIONS = 3  # of processes, until a comparison is decided
_SWEEP = 3600.0  # seconds: weights may have to be downloaded first
_COMPARED = 3  # players: the new wheel, the old one, the old one again


@dataclass(frozen=True, kw_only=True)
class _Setup:
    """The first worker, its package and GPUs."""

    started: Mapping[str, Any]
    gpus: tuple[GpuFacts, ...]  # on which the probe's calls run
    monitors: tuple[GpuMonitor, ...]  # of them
    package: MeasuredPackage
    own_kernels: frozenset[str]  # of the package, by name
    notes: tuple[str, ...]
    ceilings: Mapping[str, float]
    tolerance: float  # share of the time that counts as the same; 0: nothing is compared

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Clocks]]:
        """Sample all clocks while the block runs; the list gets a record of each GPU."""
        clocks: list[Clocks] = []
        with contextlib.ExitStack() as stack:
            watched = [stack.enter_context(monitor.watching()) for monitor in self.monitors]
            yield clocks
        clocks += [record for records in watched for record in records]


def measure(request: PerfRequest, console: Console) -> PerfRun:
    """Check and measure a package.

    Raises:
        GpuError: there is no GPU that it can be measured on.
        ProbeError: the probe can't be started, or its process died.
        UsageError: an earlier run is of another GPU.
    """
    return _Measurement(request, console).run()


class _Measurement:
    def __init__(self, request: PerfRequest, console: Console) -> None:
        self._request = request
        self._console = console
        self._cases: list[MeasuredCase] = []

    def run(self) -> PerfRun:
        with self._workers() as workers:
            setup = self._start(workers)
            for facts in setup.started["cases"]:
                if facts["is_quick"] or not self._request.is_quick:
                    self._cases.append(self._measure(facts, workers, setup))
            files = [Path(path) for path in workers[0].call("libraries")]
            site = Path(setup.started["site"]).resolve()
            loads = find_loaded_libraries(files, site, owners(site), "", None)
            sweep = tuple(self._sweep(workers[0]))
        for generation in range(2, _GENERATIONS + 1):
            self._repeat(setup, generation)
        libraries = tuple((load.soname, load.location, load.supplier) for load in loads)
        return self._finish(setup, libraries, sweep)

    @contextlib.contextmanager
    def _workers(self) -> Iterator[list[ProbeProcess]]:
        """Start a worker for the new wheel, and two for an old one."""
        request = self._request
        places = [request.new, *([request.old, request.old] if request.old else [])]
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(start_probe(place, request.probe, request.log))
                for place in places
            ]

    def _start(self, workers: list[ProbeProcess]) -> _Setup:
        """Start all workers, and check that their figures will count on this GPU."""
        request = self._request
        with self._console.live("start") as line:
            line.show("importing")
            started, *others = _start_all(workers)
            check_cases(started, request)
            check_imports(started, others, request)
            gpus, monitors = self._check_gpus(started, workers)
            package = find_package(started["package"], started["module"])
            code = code_of_libraries(package.libraries)
            note = check_code(code, gpus[0], request.wheel or package.name)
            line.show("ceilings: a copy and matrix products")
            notes = [note] if note else []
            frameworks = {facts["framework"] for facts in others}
            frameworks |= {request.past.framework} if request.past else set()
            notes += [
                f"what it is compared with ran with {name}"
                for name in sorted(frameworks - {started["framework"]})
            ]
            tolerance = 0.0
            if request.old or request.past:
                usual = gate.TOLERANCES[started["clock"]] if request.old else gate.BETWEEN_RUNS
                tolerance = request.tolerance or usual
            return _Setup(
                started=started,
                gpus=gpus,
                monitors=monitors,
                package=package,
                own_kernels=kernels_of(package.libraries, gpus[0].capability),
                notes=tuple(notes),
                ceilings=workers[0].call("ceilings"),
                tolerance=tolerance,
            )

    def _check_gpus(
        self, started: Mapping[str, Any], workers: list[ProbeProcess]
    ) -> tuple[tuple[GpuFacts, ...], tuple[GpuMonitor, ...]]:
        """Return each GPU on which the probe's calls run, and its monitor."""
        request, pids = self._request, [pid for worker in workers for pid in worker.pids]
        gpus, monitors = [], []
        for facts in started["gpus"]:
            monitor = GpuMonitor(facts["uuid"])
            state = monitor.state(pids)
            gpu = GpuFacts(**facts, driver=state.driver)
            check_health(state, gpu)
            if request.old or request.past:
                check_alone(state, gpu, is_shared=request.is_shared)
            gpus.append(gpu)
            monitors.append(monitor)
        if request.past:
            check_comparable(request.past, gpus, request.recipe, started["clock"], request.against)
        return tuple(gpus), tuple(monitors)

    def _measure(
        self, facts: Mapping[str, Any], workers: list[ProbeProcess], setup: _Setup
    ) -> MeasuredCase:
        """Check a case and measure it for the first time."""
        case = new_case(facts, len(setup.gpus))
        needed, free = facts["memory"] * len(workers), setup.started["free"]
        skipped = ""
        if facts["gpus"] > setup.gpus[0].gpus:
            skipped = f"it needs {facts['gpus']} GPUs"
        elif needed > free:
            skipped = f"too little GPU memory: about {show_size(needed)} needed"
        if skipped:
            case.result = replace(case.result, skipped=skipped)
            return case
        with self._console.live(case.name) as line:
            line.show("checked and measured")
            try:
                self._play(case, workers, setup, factor=1)
            except OutOfGpuMemoryError:
                case.blame(
                    f"out of GPU memory: {show_size(free)} were free, about "
                    f"{show_size(facts['memory'])} are needed"
                )
            except CaseFailedError as error:
                if error.is_wrong:
                    case.blame(error.what)
                else:
                    case.result = replace(case.result, failed=error.what)
        return case

    def _play(
        self, case: MeasuredCase, workers: list[ProbeProcess], setup: _Setup, *, factor: int
    ) -> None:
        first, *others = workers
        answer = first.call("prepare", case=case.name, checks=True)
        case.judge_results(answer, setup.own_kernels)
        if not case.facts["is_timed"] or case.result.faults:
            return
        players = [Player(worker=first, subject="package", seconds=answer["seconds"])]
        for worker in others:  # the first of them is checked too: a wrong one decides nothing
            old = worker.call("prepare", case=case.name, checks=worker is others[0])
            if case.wrong(old):
                case.blame("the old wheel's result is wrong here, so it can't be compared with")
            players.append(Player(worker=worker, subject="package", seconds=old["seconds"]))
        if "rival_seconds" in answer:
            seconds = answer["rival_seconds"]
            players.append(Player(worker=first, subject="rival", seconds=seconds))
        with setup.watching() as clocks:
            play(case.name, players, is_quick=self._request.is_quick, factor=factor)
        case.clocks += clocks
        case.new += players[0].rounds
        case.rival += players[-1].rounds if players[-1].subject == "rival" else []
        for worker in workers:
            last = worker.call("finish", case=case.name, checks=worker is first)
            if fault := case.wrong(last):
                case.blame(f"after many calls {fault}")
        if others and not case.result.faults:
            rounds = [player.rounds for player in players[:_COMPARED]]
            case.compare(*rounds, tolerance=setup.tolerance)

    def _repeat(self, setup: _Setup, generation: int) -> None:
        """Measure undecided cases again in fresh processes, longer than before."""
        undecided = [case for case in self._cases if case.is_undecided]
        if not undecided:
            return
        failures = (OutOfGpuMemoryError, CaseFailedError)
        with self._workers() as workers:
            _start_all(workers)
            for case in undecided:
                with self._console.live(case.name) as line, contextlib.suppress(*failures):
                    line.show(f"undecided; measuring again, pass {generation}")
                    self._play(case, workers, setup, factor=generation)

    def _sweep(self, worker: ProbeProcess) -> Iterator[SweepResult]:
        request = self._request.sweep
        if request is None:
            return
        for clients in range(1, request.most + 1):
            with self._console.live("sweep") as line:
                line.show(f"{request.requests} requests, {clients} concurrent")
                answer = worker.call(
                    "sweep",
                    timeout=_SWEEP,
                    clients=clients,
                    requests=request.requests,
                    model=request.model,
                )
            p50, p95 = (float(np.percentile(answer["seconds"], part)) for part in (50, 95))
            count = len(answer["seconds"])
            yield SweepResult(
                clients=clients,
                what=answer["what"],
                requests=count,
                rate=count / answer["total"],
                tokens=answer["tokens"] / answer["total"],
                p50=p50,
                p95=p95,
                memory=answer["memory"],
            )

    def _finish(
        self,
        setup: _Setup,
        libraries: tuple[tuple[str, str, str], ...],
        sweep: tuple[SweepResult, ...],
    ) -> PerfRun:
        request, started = self._request, setup.started
        cases = tuple(case.finish(setup.ceilings) for case in self._cases)
        if past := request.past:
            cases = tuple(
                compare_with_past(case, past, setup.ceilings, setup.tolerance) for case in cases
            )
        clocks = merge_clocks([record for case in self._cases for record in case.clocks])
        if set(HEAT) & set(clocks.slowed_by):
            cases = tuple(map(_undecided_if_same, cases))
        states = [monitor.state(()) for monitor in setup.monitors]
        notes = [*setup.notes, *(note for state in states for note in notes_of(state, clocks))]
        notes += [
            f"it isn't known whose kernels ran: {case.unread}" for case in cases if case.unread
        ]
        answer: Answer | Literal[""] = ""
        if request.against:
            lost = _not_compared(cases, self._cases, request.past)
            notes += [f"{name}: nothing to compare with" for name in lost]
            answers: list[Answer] = [case.comparison.answer for case in cases if case.comparison]
            answer = gate.worst(answers if answers and not lost else [*answers, "UNDECIDED"])
        return PerfRun(
            recipe=request.recipe,
            package=setup.package.name,
            wheel=request.wheel,
            sha256=request.sha256 or setup.package.sha256,
            date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            gpu=setup.gpus[0],
            gpus=setup.gpus if setup.gpus[1:] else (),
            framework=started["framework"],
            python=started["python"],
            clock=started["clock"],
            variables=started["variables"],
            ceilings=dict(setup.ceilings),
            cases=cases,
            libraries=libraries,
            sweep=sweep,
            notes=tuple(dict.fromkeys(notes)),
            against=request.against,
            against_sha256=request.against_sha256,
            is_quick=request.is_quick,
            answer=answer,
            tolerance=setup.tolerance,
            cuwheel=__version__,
            commit=commit_of(ROOT),
        )


def _start_all(workers: list[ProbeProcess]) -> list[Mapping[str, Any]]:
    """Start all workers at once, as imports take seconds, and return their answers."""
    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(ProbeProcess.start, workers))


def _not_compared(
    cases: Iterable[CaseResult], measured: Iterable[MeasuredCase], past: PerfRun | None
) -> list[str]:
    """Return the timed cases without a comparison; for an earlier run, also those not run now."""
    expected = {case.name for case in past.cases if case.timing} if past else None
    timed = {case.name for case in measured if case.facts["is_timed"]}
    return [
        case.name
        for case in cases
        if case.name in timed
        and not case.comparison
        and not case.faults
        and (not case.skipped if expected is None else case.name in expected)
    ]


def _undecided_if_same(case: CaseResult) -> CaseResult:
    """Return UNDECIDED for SAME: heat limited the clocks during the measurement."""
    if not case.comparison or case.comparison.answer != "SAME":
        return case
    return replace(case, comparison=replace(case.comparison, answer="UNDECIDED"))
