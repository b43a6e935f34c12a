"""Health and clocks of a GPU, read through NVML (nvidia-ml-py), and checks that figures count.

It needs device code for the GPU, no errors of its memory, no other processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from cuwheel.base.errors import GpuError, UsageError
from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.cuda.suppliers import DRIVER_SONAME
from cuwheel.lab.perf.records import Clocks, GpuFacts, PerfRun, names_of

_INTERVAL = 0.02  # seconds between two samples
# nvml.h, "Clocks event reasons"; without idle and application settings, which slow nothing down.
_REASONS = {
    "power limit": pynvml.nvmlClocksEventReasonSwPowerCap,
    "power brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "thermal (hardware)": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "heat": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hardware slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
}
HEAT = ("heat", "thermal (hardware)", "hardware slowdown", "power brake")  # of `Clocks.slowed_by`


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """The state of a GPU.

    Attributes:
        others: other processes that compute on it: process id and bytes of memory.
        uncorrected: uncorrected ECC errors since the driver was loaded (NVML's volatile counter);
            None: not known.
        unread: why the state isn't known; empty: it is.
    """

    driver: str = ""
    others: tuple[tuple[int, int], ...] = ()
    mig_slice: bool = False
    uncorrected: int | None = None
    unread: str = ""


class GpuMonitor:
    """A reader of one GPU's state and clocks."""

    def __init__(self, uuid: str) -> None:
        self._handle: Any = None
        self._unread = ""
        try:
            pynvml.nvmlInit()
            try:
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            except pynvml.NVMLError:  # a MIG slice, for which CUDA returns a GPU's UUID
                mig = uuid.replace("GPU-", "MIG-", 1)
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(mig)
        except pynvml.NVMLError as problem:
            self._unread = f"NVML reports: {problem}"

    def state(self, pids: Collection[int]) -> GpuState:
        """Return the state now; the processes with these ids aren't others."""
        if self._handle is None:
            return GpuState(unread=self._unread)
        processes = self._query(pynvml.nvmlDeviceGetComputeRunningProcesses) or []
        errors = self._query(
            pynvml.nvmlDeviceGetTotalEccErrors,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        )
        return GpuState(
            driver=str(pynvml.nvmlSystemGetDriverVersion()),
            others=tuple(
                (process.pid, int(process.usedGpuMemory or 0))
                for process in processes
                if process.pid not in pids
            ),
            mig_slice=bool(self._query(pynvml.nvmlDeviceIsMigDeviceHandle)),
            uncorrected=errors,
        )

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Clocks]]:
        """Sample the clocks while the block runs; the list gets one record when it ends."""
        clocks: list[Clocks] = []
        if self._handle is None:
            yield clocks
            return
        samples: list[tuple[int, int, int, float, int]] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(_INTERVAL):
                samples.append(self._sample())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield clocks
        finally:
            stop.set()
            thread.join()
            clocks.append(_summary(samples or [self._sample()]))

    def _sample(self) -> tuple[int, int, int, float, int]:
        query = self._query
        return (
            query(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM) or 0,
            query(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM) or 0,
            query(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU) or 0,
            (query(pynvml.nvmlDeviceGetPowerUsage) or 0) / 1e3,
            query(pynvml.nvmlDeviceGetCurrentClocksEventReasons) or 0,
        )

    def _query(self, function: Any, *arguments: Any) -> Any:
        """Return a value of NVML; None where this GPU, slice or driver has none."""
        try:
            return function(self._handle, *arguments)
        except pynvml.NVMLError:
            return None


def merge_clocks(parts: Collection[Clocks]) -> Clocks:
    """Return the clocks of several periods as one."""
    known = [part for part in parts if part.sm[1]]
    if not known:
        return Clocks()
    return Clocks(
        sm=_span([value for part in known for value in part.sm]),
        memory=_span([value for part in known for value in part.memory]),
        temperature=max(part.temperature for part in known),
        power=max(part.power for part in known),
        slowed_by=tuple(sorted({reason for part in known for reason in part.slowed_by})),
    )


def _summary(samples: list[tuple[int, int, int, float, int]]) -> Clocks:
    sm, memory, temperature, power, reasons = zip(*samples, strict=True)
    held = 0
    for bits in reasons:
        held |= bits
    return Clocks(
        sm=_span(sm),
        memory=_span(memory),
        temperature=max(temperature),
        power=max(power),
        slowed_by=tuple(name for name, bit in _REASONS.items() if held & bit),
    )


def _span(values: Collection[int]) -> tuple[int, int, int]:
    return min(values), int(statistics.median(values)), max(values)


def check_has_driver(name: str) -> None:
    """Check that there is a driver, before anything is installed; raises GpuError."""
    try:
        ctypes.CDLL(DRIVER_SONAME)
    except OSError:
        raise GpuError(
            f"{name} can't be measured: NVIDIA's driver isn't installed here",
            why=f"the loader finds no {DRIVER_SONAME}",
            fix="nox -s diagnose shows what this machine has; start a container with `--gpus "
            "all` (docker) or `--device nvidia.com/gpu=all` (podman); without a GPU, `nox "
            "-s smoke -- TARGET` still imports the wheel",
        ) from None


def driver_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders in the caller's `LD_LIBRARY_PATH` that hold the driver's library."""
    named = environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    folders = (Path(name) for name in named if Path(name).is_absolute())
    return tuple(dict.fromkeys(folder for folder in folders if (folder / DRIVER_SONAME).is_file()))


def check_code(code: DeviceCode, gpu: GpuFacts, name: str) -> str:
    """Check that a wheel holds code for this GPU, and return a note if it is only PTX.

    Raises:
        GpuError: it holds code for other GPUs only.
    """
    if not (code.sass or code.ptx):
        return ""
    how = runs_on(code, gpu.capability)
    if not how:
        raise GpuError(
            f"{name} has no code for {gpu.name}",
            why=f"that is sm_{gpu.capability}; the wheel contains {describe_code(code)}",
            fix=f"build it for this GPU: -- --arch {gpu.capability}",
        )
    if how == "PTX":
        return (
            f"the wheel contains {describe_code(code)}: the driver compiles its PTX for "
            f"sm_{gpu.capability} at the first call"
        )
    return ""


def check_health(state: GpuState, gpu: GpuFacts) -> None:
    """Check that the memory of a GPU can be trusted; raises GpuError."""
    if state.uncorrected:
        raise GpuError(
            f"{gpu.name} has had {plural(state.uncorrected, 'memory error')} that ECC couldn't "
            "correct since the driver was loaded",
            why="results may be wrong with any wheel",
            fix="nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER shows them; ask an "
            "administrator to reset or replace the GPU",
        )


def check_alone(state: GpuState, gpu: GpuFacts, *, is_shared: bool) -> None:
    """Check that no other process uses a GPU on which times are compared; raises GpuError."""
    if state.others and not is_shared:
        raise GpuError(
            f"other processes use {gpu.name}: times can't be compared",
            why=_processes(state),
            fix="wait until it is free (`nvidia-smi`), choose another GPU with "
            "CUDA_VISIBLE_DEVICES=1, or compare anyway: -- --shared-gpu",
        )


def check_comparable(
    past: PerfRun, gpus: Sequence[GpuFacts], recipe: str, clock: str, name: str
) -> None:
    """Check that an earlier run was right, of this package, and on such GPUs by such a clock.

    Raises:
        UsageError: it was not.
    """
    facts = (
        ("of", past.recipe, recipe),
        ("on", past.gpu_names, names_of(gpus)),
        ("with driver", past.gpu.driver, gpus[0].driver),
        ("by", past.clock, clock),
    )
    problems = [
        f"it was measured {link} {before or 'none'}, this run is {link} {now or 'none'}"
        for link, before, now in facts
        if before != now
    ]
    problems += [f"it is wrong: {fault}" for fault in past.faults]
    problems += ["other processes used its GPU"] if past.is_busy else []
    if problems:
        raise UsageError(
            f"{name} can't be compared with this run",
            why="\n".join(problems),
            fix="compare with the wheel itself, which is then measured here: --against WHEEL",
        )


def notes_of(state: GpuState, clocks: Clocks) -> Iterator[str]:
    """Yield what a reader of the figures should know."""
    if state.unread:
        yield f"clocks, ECC errors and other processes aren't known: {state.unread}"
    if state.mig_slice:
        yield (
            "the GPU is a MIG slice: rates are those of the slice, and other slices may affect them"
        )
    if state.others:
        yield f"other processes used the GPU during the run: {_processes(state)}"
    for reason in clocks.slowed_by:
        least, _, most = clocks.sm
        yield f"clocks were limited by {reason}: SM {least} to {most} MHz"


def _processes(state: GpuState) -> str:
    shown = [f"process {pid} with {show_size(size)}" for pid, size in state.others[:3]]
    more = len(state.others) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
