"""A GPU's health and clocks, read through NVML (nvidia-ml-py) while something is measured."""

from __future__ import annotations

import contextlib
import statistics
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pynvml

from cuwheel.perf.records import Clocks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_INTERVAL = 0.02  # seconds between two samples
# nvml.h, "Clocks event reasons"; idle and settings of applications slow nobody down.
_REASONS = {
    "power limit": pynvml.nvmlClocksEventReasonSwPowerCap,
    "power brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "thermal (hardware)": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "heat": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hardware slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
}


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """How a GPU is, beside its memory and arch.

    Attributes:
        driver: release of the driver.
        others: other processes that compute on it: process id and bytes of memory.
        mig_slice: the process was given a part of the GPU only.
        uncorrected: ECC errors that couldn't be corrected since the driver was loaded, as NVML's
            volatile counters have it; None: not known.
        unread: why something isn't known; empty: all is.
    """

    driver: str = ""
    others: tuple[tuple[int, int], ...] = ()
    mig_slice: bool = False
    uncorrected: int | None = None
    unread: str = ""


class GpuMonitor:
    """One GPU, as NVML shows it.

    Args:
        uuid: as the driver gave it to the process that computes.
    """

    def __init__(self, uuid: str) -> None:
        self._handle: Any = None
        self._unread = ""
        try:
            pynvml.nvmlInit()
            self._handle = _find(uuid)
        except pynvml.NVMLError as problem:
            self._unread = f"NVML reports: {problem}"

    def state(self, own: Collection[int]) -> GpuState:
        """How it is now.

        Args:
            own: process ids of our workers.
        """
        if self._handle is None:
            return GpuState(unread=self._unread)
        processes = self._ask(pynvml.nvmlDeviceGetComputeRunningProcesses) or []
        errors = self._ask(
            pynvml.nvmlDeviceGetTotalEccErrors,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        )
        return GpuState(
            driver=str(pynvml.nvmlSystemGetDriverVersion()),
            others=tuple(
                (one.pid, int(one.usedGpuMemory or 0)) for one in processes if one.pid not in own
            ),
            mig_slice=bool(self._ask(pynvml.nvmlDeviceIsMigDeviceHandle)),
            uncorrected=errors,
        )

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Clocks]]:
        """Sample the clocks while the block runs; the list gets one record when it ends."""
        found: list[Clocks] = []
        if self._handle is None:
            yield found
            return
        samples: list[tuple[int, int, int, float, int]] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(_INTERVAL):
                samples.append(self._sample())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            stop.set()
            thread.join()
            found.append(_summary(samples or [self._sample()]))

    def _sample(self) -> tuple[int, int, int, float, int]:
        ask = self._ask
        return (
            ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM) or 0,
            ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM) or 0,
            ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU) or 0,
            (ask(pynvml.nvmlDeviceGetPowerUsage) or 0) / 1e3,
            ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons) or 0,
        )

    def _ask(self, function: Any, *arguments: Any) -> Any:
        """What NVML answers; None where this GPU, slice or driver has no answer."""
        try:
            return function(self._handle, *arguments)
        except pynvml.NVMLError:
            return None


def _find(uuid: str) -> Any:
    """NVML's handle of a GPU, or of the MIG slice whose identity CUDA gives as the GPU's."""
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        return pynvml.nvmlDeviceGetHandleByUUID(uuid.replace("GPU-", "MIG-", 1))


def merge_clocks(parts: Collection[Clocks]) -> Clocks:
    """Of several stretches of time, as one."""
    known = [one for one in parts if one.sm[1]]
    if not known:
        return Clocks()
    return Clocks(
        sm=_span([value for one in known for value in one.sm]),
        memory=_span([value for one in known for value in one.memory]),
        temperature=max(one.temperature for one in known),
        power=max(one.power for one in known),
        slowed_by=tuple(sorted({reason for one in known for reason in one.slowed_by})),
    )


def _summary(samples: list[tuple[int, int, int, float, int]]) -> Clocks:
    sm, memory, temperature, power, reasons = zip(*samples, strict=True)
    held = 0
    for one in reasons:
        held |= one
    return Clocks(
        sm=_span(sm),
        memory=_span(memory),
        temperature=max(temperature),
        power=max(power),
        slowed_by=tuple(name for name, bit in _REASONS.items() if held & bit),
    )


def _span(values: Collection[int]) -> tuple[int, int, int]:
    return min(values), int(statistics.median(values)), max(values)
