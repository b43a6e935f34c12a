"""A run of `perf`: starts the probe's processes; checks, measures and judges every case."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cuwheel.base.errors import GpuError, ProbeError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.quantities import show_size
from cuwheel.build.finish.smoke.loaded_libraries import find_loaded_libraries, owners
from cuwheel.build.inputs.checkouts import commit_of
from cuwheel.lab.perf import gate
from cuwheel.lab.perf.gpu_state import HEAT, merge_clocks, notes_of
from cuwheel.lab.perf.measured_case import MeasuredCase, compare_with_past, new_case
from cuwheel.lab.perf.probe_process import (
    CALL_LIMIT,
    CaseCrashedError,
    CaseFailedError,
    OutOfGpuMemoryError,
    PerfRequest,
    Player,
    ProbeProcess,
    play,
    start_probe,
)
from cuwheel.lab.perf.records import (
    Answer,
    CaseResult,
    PerfRun,
    Sanitizing,
    SweepResult,
    UpstreamTests,
)
from cuwheel.lab.perf.sanitizer import (
    find_sanitizer,
    run_tool,
    sanitize,
    small_cases,
    without_known,
)
from cuwheel.lab.perf.setup import Setup, make_setup, start_all
from cuwheel.lab.perf.upstream_tests import run_upstream_tests
from cuwheel.version import __version__

_GENERATIONS = 3  # of processes, until a comparison is decided
_HOST_GENERATIONS = 6  # where the host's clock is read
_SWEEP = 3600.0  # seconds: weights may have to be downloaded first
_COMPARED = 3  # players: the new wheel, the old one, the old one again
_GRID = 60.0  # seconds of one wheel's grid
_SMALL_LIMIT = 60.0  # seconds of a case of the grid
_MOST_CRASHES = 3  # after which no further case is run
Libraries = tuple[tuple[str, str, str], ...]


def measure(request: PerfRequest, console: Console) -> PerfRun:
    """Check and measure a package.

    Raises:
        GpuError: there is no GPU that it can be measured on.
        ProbeError: the probe can't be started.
        UsageError: an earlier run is of another GPU.
    """
    return _Measurement(request, console).run()


class _Measurement:
    def __init__(self, request: PerfRequest, console: Console) -> None:
        self._request = request
        self._console = console
        self._cases: list[MeasuredCase] = []
        self._seconds: dict[str, float] = {}
        self._is_busy = False

    def run(self) -> PerfRun:
        with self._workers() as workers:
            setup = make_setup(self._request, workers, self._console)
            cases = setup.started["cases"]
            wanted = [facts for facts in cases if facts["is_quick"] or not self._request.is_quick]
            pending = self._measure_all(wanted, workers, setup)
            libraries, sweep = self._end(workers[0], setup) if pending is None else ((), ())
        while pending is not None:  # a crash left processes that take no further call
            with self._workers() as workers:
                try:
                    start_all(workers)
                    pending = self._measure_all(pending, workers, setup)
                    if pending is None:
                        libraries, sweep = self._end(workers[0], setup)
                except (GpuError, ProbeError) as problem:
                    self._leave_out(pending or (), setup, f"the GPU failed: {problem.why}")
                    pending = None
        with self._timed("compare"):
            for generation in range(2, _HOST_GENERATIONS + 1):
                self._repeat(setup, generation)
        sanitizing = self._sanitize(setup, wanted)
        run = self._finish(setup, libraries, sweep)
        tests = self._test()
        seconds = {level: round(taken, 1) for level, taken in self._seconds.items()}
        return replace(run, sanitizing=sanitizing, upstream_tests=tests, seconds=seconds)

    def _test(self) -> UpstreamTests | None:
        request = self._request
        if request.source is None or not request.upstream_tests:
            return None
        with self._timed("upstream tests"), self._console.live("upstream tests") as line:
            line.show(", ".join(request.upstream_tests))
            names = request.upstream_tests
            try:
                return run_upstream_tests(request.new, request.source, names, request.log)
            except ProbeError as problem:  # the record of what was measured is kept
                broken = (f"{problem.what}: {problem.why}",)
                return UpstreamTests(
                    names=names, passed=0, failed=0, skipped=0, broken=broken, seconds=0.0
                )

    @contextlib.contextmanager
    def _timed(self, level: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[level] = self._seconds.get(level, 0.0) + time.monotonic() - started

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

    def _end(self, worker: ProbeProcess, setup: Setup) -> tuple[Libraries, tuple[SweepResult, ...]]:
        """Return the libraries of the process, and the sweep's results."""
        files = [Path(path) for path in worker.call("libraries")]
        site = Path(setup.started["site"]).resolve()
        loads = find_loaded_libraries(files, site, owners(site), "", None)
        libraries = tuple((load.soname, load.location, load.supplier) for load in loads)
        return libraries, tuple(self._sweep(worker))

    def _measure_all(
        self, pending: Sequence[Mapping[str, Any]], workers: list[ProbeProcess], setup: Setup
    ) -> Sequence[Mapping[str, Any]] | None:
        """Measure cases; return those that are left when one crashed, None if none did."""
        for number, facts in enumerate(pending, start=1):
            case = new_case(facts, len(setup.gpus))
            self._cases.append(case)
            try:
                with self._timed("grid" if facts["is_grid"] else "cases"):
                    self._measure(case, workers, setup)
            except CaseCrashedError as crash:
                case.result = replace(case.result, failed=self._explain(crash, case, setup))
                left = pending[number:]
                if sum(bool(case.result.failed) for case in self._cases) < _MOST_CRASHES:
                    return left
                self._leave_out(left, setup, f"not run after {_MOST_CRASHES} crashes")
                return ()
        return None

    def _leave_out(self, left: Iterable[Mapping[str, Any]], setup: Setup, why: str) -> None:
        for facts in left:
            case = new_case(facts, len(setup.gpus))
            case.leave_out(why, "runs")
            self._cases.append(case)

    def _explain(self, crash: CaseCrashedError, case: MeasuredCase, setup: Setup) -> str:
        """Return what a crash was, with the kernel that memcheck names, where it is installed."""
        if crash.place is not self._request.new:
            return f"{crash.place.name}: {crash.what}"
        program = find_sanitizer(self._request.new.environ)
        if program is None:
            return f"{crash.what}; without compute-sanitizer its kernel isn't known"
        with contextlib.suppress(ProbeError, GpuError):
            found = run_tool("memcheck", self._request, program, [case.name], setup.own_kernels)
            if found.problems:
                return f"{crash.what}; memcheck: {found.problems[0]}"
        return f"{crash.what}; memcheck finds nothing in the wheel's kernels"

    def _measure(self, case: MeasuredCase, workers: list[ProbeProcess], setup: Setup) -> None:
        facts, free = case.facts, workers[0].call("free")
        self._look_for_others(case, workers, setup)
        needed = facts["memory"] * (len(workers) if facts["is_timed"] else min(2, len(workers)))
        limit = _GRID * min(2, len(workers))
        if facts["gpus"] > setup.gpus[0].gpus:
            case.leave_out(f"it needs {facts['gpus']} GPUs", "gpus")
        elif needed > free:
            text = f"about {show_size(needed)} needed, {show_size(free)} free"
            case.leave_out(f"too little GPU memory: {text}", "memory")
        elif facts["is_grid"] and self._seconds.get("grid", 0.0) > limit:
            case.leave_out(f"the cases before it took {limit:.0f} s", "time")
        if case.result.skipped:
            return
        with self._console.live(case.name) as line:
            line.show("checked and measured")
            try:
                self._play(case, workers, setup, factor=1)
            except OutOfGpuMemoryError as error:
                text = f"{show_size(free)} were free: {str(error).splitlines()[0]}"
                case.leave_out(f"out of GPU memory, {text}", "memory")
            except CaseFailedError as error:
                if error.is_wrong:
                    case.blame(error.what)
                else:
                    case.result = replace(case.result, failed=error.what)

    def _look_for_others(
        self, case: MeasuredCase, workers: Sequence[ProbeProcess], setup: Setup
    ) -> None:
        """Note whether other processes use a GPU, at any time of the case."""
        case.is_busy = case.is_busy or setup.has_others(workers)
        self._is_busy |= case.is_busy

    def _play(
        self, case: MeasuredCase, workers: list[ProbeProcess], setup: Setup, *, factor: int
    ) -> None:
        first, *others = workers
        answer = _prepare(first, case, checks=True)
        self._look_for_others(case, workers, setup)  # one that has come looks like a leak
        case.judge_results(answer, setup.own_kernels)
        if not case.facts["is_timed"] or case.result.faults:
            self._agree(case, others)
            return
        length = max(1, case.facts["host_calls"])  # calls that are timed together
        players = [_player(first, answer, length)]
        for worker in others:  # the first of them is checked too: a wrong one decides nothing
            old = _prepare(worker, case, checks=worker is others[0])
            if case.wrong(old):
                case.blame("the old wheel's result is wrong here, so it can't be compared with")
            case.agree(old)
            players.append(_player(worker, old, length))
        if "rival_seconds" in answer:
            players.append(_player(first, answer, length, "rival"))
        with setup.watching() as clocks:
            is_quick, by_host = self._request.is_quick, _by_host(case, setup)
            play(case.facts, players, is_quick=is_quick, by_host=by_host, factor=factor)
        case.clocks += clocks
        case.new += players[0].rounds
        case.rival += players[-1].rounds if players[-1].subject == "rival" else []
        for worker in workers:
            last = worker.call("finish", case=case.name, checks=worker is first)
            if fault := case.wrong(last):
                case.blame(f"after many calls {fault}")
        if others and not case.result.faults:
            rounds = [player.rounds for player in players[:_COMPARED]]
            case.compare(*rounds, tolerance=setup.tolerance, by_host=by_host)

    def _agree(self, case: MeasuredCase, others: Sequence[ProbeProcess]) -> None:
        """Compare the results of a case that isn't timed with the old wheel's, if that has it."""
        if others:
            with contextlib.suppress(CaseFailedError, OutOfGpuMemoryError):
                case.agree(_prepare(others[0], case, checks=True))
                others[0].call("finish", case=case.name, checks=False)

    def _repeat(self, setup: Setup, generation: int) -> None:
        """Measure undecided cases again in fresh processes, longer than before."""
        undecided = [
            case
            for case in self._cases
            if case.is_undecided and (generation <= _GENERATIONS or _by_host(case, setup))
        ]
        if not undecided:
            return
        failures = (OutOfGpuMemoryError, CaseFailedError)
        with self._workers() as workers, contextlib.suppress(CaseCrashedError):
            start_all(workers)
            for case in undecided:
                with self._console.live(case.name) as line, contextlib.suppress(*failures):
                    line.show(f"undecided; measuring again, pass {generation}")
                    self._play(case, workers, setup, factor=generation)

    def _sanitize(
        self, setup: Setup, wanted: Sequence[Mapping[str, Any]]
    ) -> tuple[Sanitizing, ...]:
        """Run the sanitizer's tools on the small cases that didn't crash."""
        program = self._request.sanitizer
        failed = {case.name for case in self._cases if case.result.failed}
        names = [name for name in small_cases(wanted) if name not in failed]
        if program is None or not names:
            return ()
        with self._timed("sanitize"), self._console.live("sanitize") as line:
            line.show("memcheck, racecheck, initcheck, synccheck")
            found = sanitize(self._request, program, names, setup.own_kernels)
            return tuple(without_known(part, setup.started["known"]) for part in found)

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
        setup: Setup,
        libraries: Libraries,
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
            f"it isn't known whose kernels ran: {case.unread}"
            for case in cases
            if case.unread and not case.undecided
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
            is_busy=self._is_busy or any(state.others for state in states),
            reference=request.reference,
            untouched=tuple(started["untouched"]),
            answer=answer,
            tolerance=setup.tolerance,
            cuwheel=__version__,
            commit=commit_of(ROOT),
        )


def _prepare(worker: ProbeProcess, case: MeasuredCase, *, checks: bool) -> dict[str, Any]:
    """Prepare a case; a small one that takes minutes counts as a crash: its kernel never ends."""
    limit = _SMALL_LIMIT if case.facts["is_grid"] else CALL_LIMIT
    return dict(worker.call("prepare", timeout=limit, case=case.name, checks=checks))


def _player(
    worker: ProbeProcess,
    answer: Mapping[str, Any],
    length: int,
    subject: Literal["package", "rival"] = "package",
) -> Player:
    """Return what is measured, by a worker's answer; so many calls are timed at once."""
    prefix = "rival_" if subject == "rival" else ""
    return Player(
        worker=worker,
        subject=subject,
        seconds=length * answer[f"{prefix}seconds"],
        processors=answer[f"{prefix}processors"],
    )


def _by_host(case: MeasuredCase, setup: Setup) -> bool:
    """Return True for a case that the host's clock times."""
    return bool(case.facts["host_calls"]) or setup.started["clock"] == gate.HOST_CLOCK


def _not_compared(
    cases: Iterable[CaseResult], measured: Iterable[MeasuredCase], past: PerfRun | None
) -> list[str]:
    """Return the timed cases without a comparison; for an earlier run, of those that it timed."""
    expected = {case.name for case in past.cases if case.timing} if past else None
    timed = {case.name for case in measured if case.facts["is_timed"]}
    return [
        case.name
        for case in cases
        if case.name in timed
        and not case.comparison
        and not case.faults
        and (case.lacks != "gpus" if expected is None else case.name in expected)
    ]


def _undecided_if_same(case: CaseResult) -> CaseResult:
    """Return UNDECIDED for SAME: heat limited the clocks during the measurement."""
    if not case.comparison or case.comparison.answer != "SAME":
        return case
    return replace(case, comparison=replace(case.comparison, answer="UNDECIDED"))
