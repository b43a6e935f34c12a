"""One run: workers started, the GPU looked at, every case checked, measured, judged."""

from __future__ import annotations

import contextlib
import datetime
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cuwheel.paths import ROOT
from cuwheel.perf import gate
from cuwheel.perf.gpu_state import GpuMonitor, merge_clocks
from cuwheel.perf.measured_case import Rounds, compare_with_past, new_case
from cuwheel.perf.obstacles import (
    HEAT,
    check_alone,
    check_code,
    check_comparable,
    check_health,
    notes_of,
)
from cuwheel.perf.own_kernels import code_of_libraries, kernels_of
from cuwheel.perf.package import find_package
from cuwheel.perf.records import GpuFacts, PerfRun, SweepResult
from cuwheel.perf.request import check_imports, check_probe
from cuwheel.perf.rounds import Player, play
from cuwheel.perf.worker import CaseFailedError, OutOfGpuMemoryError, Worker, start_worker
from cuwheel.smoke.loaded_libraries import find_loaded_libraries, owners
from cuwheel.sources.checkouts import commit_of
from cuwheel.system.quantities import show_size
from cuwheel.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.perf.measured_case import MeasuredCase
    from cuwheel.perf.package import InstalledPackage
    from cuwheel.perf.records import Answer, CaseResult, Clocks
    from cuwheel.perf.request import PerfRequest
    from cuwheel.system.console import Console

_GENERATIONS = 3  # of processes, until a comparison is decided
_SWEEP = 3600.0  # seconds: weights may have to be fetched first
_COMPARED = 3  # players: the new wheel, the old one, the old one again


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What the first worker and its GPU are: everything but the cases."""

    started: Mapping[str, Any]
    gpus: tuple[GpuFacts, ...]  # those that the probe's calls run on
    monitors: tuple[GpuMonitor, ...]  # of them
    package: InstalledPackage
    notes: tuple[str, ...]
    ceilings: Mapping[str, float]
    free: int  # bytes of GPU memory
    tolerance: float  # share of the time that counts as the same; 0: nothing is compared

    @property
    def gpu(self) -> GpuFacts:
        """The first of them."""
        return self.gpus[0]

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Clocks]]:
        """Sample the clocks of all while the block runs; the list gets a record of each."""
        clocks: list[Clocks] = []
        with contextlib.ExitStack() as stack:
            watched = [stack.enter_context(one.watching()) for one in self.monitors]
            yield clocks
        clocks += [record for records in watched for record in records]


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
            sweep = tuple(self._sweep(workers[0]))
        for generation in range(2, _GENERATIONS + 1):
            self._repeat(found, own, generation)
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
            started, *theirs = _start_all(workers)
            check_probe(started, self._asked)
            check_imports(started, theirs, self._asked)
            gpus, monitors = self._look_at_gpus(started, workers)
            package = find_package(started["package"], started["module"])
            code = code_of_libraries(package.libraries)
            note = check_code(code, gpus[0], self._asked.wheel or package.name)
            line.show("ceilings: a copy and matrix products")
            notes = [note] if note else []
            frameworks = {one["framework"] for one in theirs} - {started["framework"]}
            if past := self._asked.past:
                frameworks |= {past.framework} - {started["framework"]}
            notes += [f"what it is compared with ran with {name}" for name in sorted(frameworks)]
            return _Found(
                started=started,
                gpus=gpus,
                free=started["free"],
                monitors=monitors,
                package=package,
                notes=tuple(notes),
                ceilings=first.ask("ceilings"),
                tolerance=self._tolerance(started["clock"]),
            )

    def _tolerance(self, clock: str) -> float:
        """The share of the time that counts as the same; 0: nothing is compared."""
        if not (self._asked.old or self._asked.past):
            return 0.0
        usual = gate.TOLERANCES[clock] if self._asked.old else gate.BETWEEN_RUNS
        return self._asked.tolerance or usual

    def _look_at_gpus(
        self, started: Mapping[str, Any], workers: list[Worker]
    ) -> tuple[tuple[GpuFacts, ...], tuple[GpuMonitor, ...]]:
        """Each GPU that the probe's calls run on, and what watches it."""
        asked, own = self._asked, [pid for one in workers for pid in one.pids]
        gpus, monitors = [], []
        for facts in started["gpus"]:
            monitor = GpuMonitor(facts["uuid"])
            state = monitor.state(own)
            gpu = GpuFacts(**facts, driver=state.driver)
            check_health(state, gpu)
            if asked.old or asked.past:
                check_alone(state, gpu, is_shared=asked.is_shared)
            gpus.append(gpu)
            monitors.append(monitor)
        if asked.past:
            check_comparable(asked.past, gpus, asked.recipe, started["clock"], asked.against)
        return tuple(gpus), tuple(monitors)

    def _measure(
        self, facts: Mapping[str, Any], workers: list[Worker], found: _Found, own: frozenset[str]
    ) -> MeasuredCase:
        """Check a case and measure it for the first time."""
        case = new_case(facts, len(found.gpus))
        if facts["gpus"] > found.gpu.gpus:
            case.skip(f"it needs {facts['gpus']} GPUs")
            return case
        needed = facts["memory"] * len(workers)
        if needed > found.free:
            case.skip(f"too little GPU memory: about {show_size(needed)} needed")
            return case
        with self._console.live(case.name) as line:
            line.show("checked and measured")
            try:
                self._play(case, workers, found, own, factor=1)
            except OutOfGpuMemoryError:
                case.blame_memory(found.free)
            except CaseFailedError as error:
                case.fail(error.what, is_wrong=error.is_wrong)
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
        first, *others = workers
        answer = first.ask("prepare", case=case.name, checks=True)
        case.judge_results(answer, own)
        if not case.facts["is_timed"] or case.result.faults:
            return
        players = [Player(worker=first, whose="package", seconds=answer["seconds"])]
        for worker in others:  # the first of them is checked too: a wrong one decides nothing
            theirs = worker.ask("prepare", case=case.name, checks=worker is others[0])
            case.judge_old(theirs)
            players.append(Player(worker=worker, whose="package", seconds=theirs["seconds"]))
        if "rival_seconds" in answer:
            seconds = answer["rival_seconds"]
            players.append(Player(worker=first, whose="rival", seconds=seconds))
        with found.watching() as clocks:
            play(case.name, players, is_quick=self._asked.is_quick, factor=factor)
        case.clocks += clocks
        case.new += players[0].rounds
        case.rival += players[-1].rounds if players[-1].whose == "rival" else []
        for worker in workers:
            last = worker.ask("finish", case=case.name, checks=worker is first)
            case.judge_last(last)
        if others and not case.result.faults:
            rounds = Rounds(*(player.rounds for player in players[:_COMPARED]))
            case.compare(rounds, found.tolerance)

    def _repeat(self, found: _Found, own: frozenset[str], generation: int) -> None:
        """Measure undecided cases again in fresh processes, longer than before."""
        undecided = [case for case in self._cases if case.is_undecided]
        if not undecided:
            return
        with self._workers() as workers:
            _start_all(workers)
            for case in undecided:
                failures = (OutOfGpuMemoryError, CaseFailedError)
                with self._console.live(case.name) as line, suppress(*failures):
                    line.show(f"undecided; measuring again, pass {generation}")
                    self._play(case, workers, found, own, factor=generation)

    def _sweep(self, worker: Worker) -> Iterator[SweepResult]:
        asked = self._asked.sweep
        if asked is None:
            return
        for clients in range(1, asked.most + 1):
            with self._console.live("sweep") as line:
                line.show(f"{asked.requests} requests, {clients} concurrent")
                words = {"requests": asked.requests, "model": asked.model}
                found = worker.ask("sweep", timeout=_SWEEP, clients=clients, **words)
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
                compare_with_past(case, past, found.ceilings, found.tolerance) for case in cases
            )
        clocks = merge_clocks([one for case in self._cases for one in case.clocks])
        if set(HEAT) & set(clocks.slowed_by):
            cases = tuple(map(_undecided_if_same, cases))
        states = [monitor.state(()) for monitor in found.monitors]
        seen = dict.fromkeys(note for state in states for note in notes_of(state, clocks))
        notes = (*found.notes, *seen, *_unread(cases))
        answer: Answer | Literal[""] = ""
        if asked.against:
            lost = _not_compared(cases, self._cases, asked.past)
            notes += tuple(f"{name}: nothing to compare with" for name in lost)
            answers: list[Answer] = [one.comparison.answer for one in cases if one.comparison]
            answer = gate.worst(answers if answers and not lost else [*answers, "UNDECIDED"])
        return PerfRun(
            recipe=asked.recipe,
            package=found.package.name,
            wheel=asked.wheel,
            sha256=asked.sha256 or found.package.sha256,
            date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            gpu=found.gpu,
            gpus=found.gpus if found.gpus[1:] else (),
            framework=started["framework"],
            python=started["python"],
            clock=started["clock"],
            variables=started["variables"],
            ceilings=dict(found.ceilings),
            cases=cases,
            libraries=libraries,
            sweep=sweep,
            notes=notes,
            against=asked.against,
            answer=answer,
            tolerance=found.tolerance,
            cuwheel=__version__,
            commit=commit_of(ROOT),
        )


def _start_all(workers: list[Worker]) -> list[Mapping[str, Any]]:
    """Start all at once, as imports take seconds; what each of them is."""
    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(Worker.start, workers))


def _not_compared(
    cases: Iterable[CaseResult], measured: Iterable[MeasuredCase], past: PerfRun | None
) -> list[str]:
    """Timed cases that were run without a comparison; those of an earlier run, run or not."""
    had = {case.name for case in past.cases if case.timing} if past else None
    timed = {one.name for one in measured if one.facts["is_timed"]}
    return [
        case.name
        for case in cases
        if case.name in timed
        and not case.comparison
        and not case.faults
        and (not case.skipped if had is None else case.name in had)
    ]


def _unread(cases: Iterable[CaseResult]) -> list[str]:
    """One line for each reason why kernels weren't read."""
    reasons = dict.fromkeys(case.unread for case in cases if case.unread)
    return [f"it isn't known whose kernels ran: {reason}" for reason in reasons]


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
