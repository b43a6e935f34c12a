"""What is found out before the first case: the package, its GPUs, and whether figures count."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cuwheel.base.system.console import Console
from cuwheel.lab.perf import gate
from cuwheel.lab.perf.gpu_state import (
    GpuMonitor,
    check_alone,
    check_code,
    check_comparable,
    check_health,
)
from cuwheel.lab.perf.kernels import code_of_libraries, kernels_of
from cuwheel.lab.perf.measured_wheel import MeasuredPackage, find_package
from cuwheel.lab.perf.probe_process import PerfRequest, ProbeProcess, check_cases, check_imports
from cuwheel.lab.perf.records import Clocks, GpuFacts


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The package of the first worker, and its GPUs.

    Attributes:
        started: answer of the first worker to `start`.
        gpus, monitors: of those on which the probe's calls run.
        own_kernels: of the package, by mangled name.
        tolerance: the share of the time that counts as the same; 0: nothing is compared.
    """

    started: Mapping[str, Any]
    gpus: tuple[GpuFacts, ...]
    monitors: tuple[GpuMonitor, ...]
    package: MeasuredPackage
    own_kernels: frozenset[str]
    notes: tuple[str, ...]
    ceilings: Mapping[str, float]
    tolerance: float

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Clocks]]:
        """Sample all clocks while the block runs; the list gets a record of each GPU."""
        clocks: list[Clocks] = []
        with contextlib.ExitStack() as stack:
            watched = [stack.enter_context(monitor.watching()) for monitor in self.monitors]
            yield clocks
        clocks += [record for records in watched for record in records]

    def has_others(self, workers: Sequence[ProbeProcess]) -> bool:
        """Return True if processes other than some workers use one of the GPUs now."""
        pids = [pid for worker in workers for pid in worker.pids]
        return any(monitor.state(pids).others for monitor in self.monitors)


def start_all(workers: Sequence[ProbeProcess]) -> list[Mapping[str, Any]]:
    """Start all workers at once, as imports take seconds, and return their answers."""
    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(ProbeProcess.start, workers))


def make_setup(request: PerfRequest, workers: Sequence[ProbeProcess], console: Console) -> Setup:
    """Start all workers, and check that their figures will count on this GPU.

    Raises:
        GpuError: the GPU is damaged, used by others, or has no code in the wheel.
        ProbeError: a worker can't be started, or imports something else.
        UsageError: the probe can't serve the request, or an earlier run can't be compared with.
    """
    with console.live("start") as line:
        line.show("importing")
        started, *others = start_all(workers)
        check_cases(started, request)
        check_imports(started, others, request)
        gpus, monitors = _check_gpus(request, started, workers)
        package = find_package(started["package"], started["module"])
        code = code_of_libraries(package.libraries)
        note = check_code(code, gpus[0], request.wheel or package.name)
        line.show("ceilings: a copy and matrix products")
        frameworks = {facts["framework"] for facts in others}
        frameworks |= {request.past.framework} if request.past else set()
        tolerance = 0.0
        if request.old or request.past:
            usual = gate.TOLERANCES[started["clock"]] if request.old else gate.BETWEEN_RUNS
            tolerance = request.tolerance or usual
        return Setup(
            started=started,
            gpus=gpus,
            monitors=monitors,
            package=package,
            own_kernels=kernels_of(package.libraries, gpus[0].capability),
            notes=(
                *((note,) if note else ()),
                *(
                    f"what it is compared with ran with {name}"
                    for name in sorted(frameworks - {started["framework"]})
                ),
            ),
            ceilings=workers[0].call("ceilings"),
            tolerance=tolerance,
        )


def _check_gpus(
    request: PerfRequest, started: Mapping[str, Any], workers: Sequence[ProbeProcess]
) -> tuple[tuple[GpuFacts, ...], tuple[GpuMonitor, ...]]:
    """Return each GPU on which the probe's calls run, and its monitor."""
    pids = [pid for worker in workers for pid in worker.pids]
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
