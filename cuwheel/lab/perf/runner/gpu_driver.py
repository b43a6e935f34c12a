"""The GPU through its driver and CUPTI, by ctypes: properties, a copy's rate, L2 flushes, kernels.

It serves packages without a framework too. Standard library only, Python 3.9 or newer.

Sources: cuda.h (`CUdevice_attribute`, and the functions' names with their `_v2`), cupti_result.h,
cupti_activity.h of CUDA 12 and 13 (`CUpti_ActivityKernel9` and `…10` agree in all fields up to the
name; NVIDIA appends fields). PyTorch and JAX ship CUPTI for their own profilers.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SM_COUNT, _L2_BYTES, _MAJOR, _MINOR = 16, 38, 75, 76  # CU_DEVICE_ATTRIBUTE_…
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_COPIED = 1 << 30  # bytes: many times any L2
_COPIES = 10
_FLUSHED = 2  # times the L2, to evict all of it


class NoGpuError(Exception):
    """A missing driver or GPU."""


class NvmlGpu:
    """A GPU of this process by CUDA's number, from 0, in its primary context.

    Raises:
        NoGpuError: there is none.
    """

    def __init__(self, ordinal: int = 0) -> None:
        """Start the driver; the context that frameworks share is made at the first use."""
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as problem:
            raise NoGpuError(f"NVIDIA's driver isn't installed here: {problem}") from None
        if status := self._cuda.cuInit(0):
            raise NoGpuError(f"the driver finds no GPU: {self._message(status)}")
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), ordinal)
        self._context: Any = None
        self._scratch: Any = None

    def facts(self) -> dict[str, Any]:
        """Return name, UUID, compute capability, multiprocessors, bytes of L2 and of memory."""
        name, identity = ctypes.create_string_buffer(128), ctypes.create_string_buffer(16)
        total, driver = ctypes.c_size_t(), ctypes.c_int()
        self._call("cuDeviceGetName", name, len(name), self._device)
        self._call("cuDeviceGetUuid_v2", identity, self._device)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(total), self._device)
        self._call("cuDriverGetVersion", ctypes.byref(driver))
        return {
            "name": name.value.decode(),
            "uuid": f"GPU-{uuid.UUID(bytes=identity.raw)}",
            "capability": f"{self._attribute(_MAJOR)}{self._attribute(_MINOR)}",
            "multiprocessors": self._attribute(_SM_COUNT),
            "l2": self._attribute(_L2_BYTES),
            "memory": total.value,
            "cuda": f"{driver.value // 1000}.{driver.value % 1000 // 10}",
            "gpus": self.count(),
        }

    def count(self) -> int:
        """Return the number of GPUs that this process may use."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def free_memory(self) -> int:
        """Return the free bytes."""
        self._enter()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def flush(self) -> None:
        """Write over the L2, and wait."""
        self._enter()
        size = _FLUSHED * max(self._attribute(_L2_BYTES), 1 << 20)
        if self._scratch is None:
            self._scratch = self._allocate(size)
        self._call("cuMemsetD8_v2", self._scratch, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        self._call("cuCtxSynchronize")

    def copy_rate(self) -> float:
        """Return bytes a second that a copy within the memory reads and writes, the best of ten."""
        self._enter()
        size = min(_COPIED, self.free_memory() // 4)
        source, target = self._allocate(size), self._allocate(size)
        start, end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (start, end):
            self._call("cuEventCreate", ctypes.byref(event), 0)
        best = float("inf")
        for _ in range(_COPIES):
            self._call("cuEventRecord", start, None)
            self._call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(size), None)
            self._call("cuEventRecord", end, None)
            self._call("cuEventSynchronize", end)
            milliseconds = ctypes.c_float()
            # The name that drivers of CUDA 12 and 13 both have.
            self._call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
            best = min(best, milliseconds.value / 1e3)
        for address in (source, target):
            self._call("cuMemFree_v2", address)
        return 2 * size / best

    def synchronize(self) -> None:
        """Wait for all work of the context."""
        self._enter()
        self._call("cuCtxSynchronize")

    def _allocate(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def _enter(self) -> None:
        if self._context is None:
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
            self._context = context
        self._call("cuCtxSetCurrent", self._context)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    def _call(self, function: str, *arguments: Any) -> None:
        if status := getattr(self._cuda, function)(*arguments):
            kind = NoGpuError if status == _NO_DEVICE else RuntimeError
            raise kind(f"{function}: {self._message(status)}")

    def _message(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorString(status, ctypes.byref(text))
        return (text.value or b"").decode() or str(status)


_CONCURRENT_KERNEL = 10  # CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
_BUFFER = 4 << 20  # bytes; a record takes about 200
_ALIGNMENT = 8  # bytes, ACTIVITY_RECORD_ALIGNMENT
_HEAD = struct.Struct("<I12xQQ8xI")  # kind, start and end in nanoseconds, the GPU's number
_NAME = 104  # offset of the name's address

_REQUEST = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_COMPLETE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class KernelsUnreadableError(Exception):
    """A missing CUPTI, or a driver that denies it access."""


class KernelReader:
    """The reader of a process; CUPTI has one set of callbacks.

    Raises:
        KernelsUnreadableError: there is no CUPTI, or it fails.
    """

    def __init__(self) -> None:
        """Load CUPTI and register buffers; nothing is recorded yet."""
        self._cupti = _load()
        self._buffers: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._records: list[tuple[str, int, int]] = []
        self._callbacks = (_REQUEST(self._give_buffer), _COMPLETE(self._take_buffer))
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)

    def read(self, call: Callable[[], object], wait: Callable[[], object]) -> list[dict[str, Any]]:
        """Return the kernels of a call: mangled name, GPU, count, nanoseconds.

        A kernel on two GPUs is listed twice. GPUs are numbered as CUDA does in this process.
        """
        wait()
        self._call("cuptiActivityFlushAll", _FORCED)
        self._records.clear()
        self._call("cuptiActivityEnable", _CONCURRENT_KERNEL)
        try:
            call()
            wait()
            self._call("cuptiActivityFlushAll", _FORCED)
        finally:
            self._call("cuptiActivityDisable", _CONCURRENT_KERNEL)
        kernels: dict[tuple[str, int], list[int]] = {}
        for name, gpu, nanoseconds in self._records:
            kernels.setdefault((name, gpu), []).append(nanoseconds)
        return [
            {"name": name, "gpu": gpu, "count": len(times), "nanoseconds": sum(times)}
            for (name, gpu), times in kernels.items()
        ]

    def _give_buffer(self, buffer: Any, size: Any, limit: Any) -> None:
        memory = ctypes.create_string_buffer(_BUFFER + _ALIGNMENT)
        start = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
        self._buffers[start] = memory
        buffer[0], size[0], limit[0] = start, _BUFFER, 0

    def _take_buffer(
        self, _context: Any, _stream: int, buffer: int, _size: int, valid: int
    ) -> None:
        record = ctypes.c_void_p(None)
        next_record = self._cupti.cuptiActivityGetNextRecord
        while not next_record(
            ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        ):
            address = record.value or 0
            kind, start, end, gpu = _HEAD.unpack(ctypes.string_at(address, _HEAD.size))
            if kind == _CONCURRENT_KERNEL:
                name = ctypes.c_char_p.from_address(address + _NAME).value or b""
                self._records.append((name.decode("utf-8", "replace"), gpu, end - start))
        self._buffers.pop(buffer, None)

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._cupti, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cupti.cuptiGetResultString(status, ctypes.byref(text))
            message = (text.value or b"").decode()
            raise KernelsUnreadableError(f"{function}: {message or status}")


def _load() -> ctypes.CDLL:
    """Load CUPTI from this environment's wheels, else from the loader's folders."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations if spec else None) or ()
    in_wheels = [
        path
        for folder in folders
        for form in ("cu*/lib/libcupti.so.*", "cuda_cupti/lib/libcupti.so.*")
        for path in sorted(map(str, Path(folder).glob(form)))
    ]
    for path in (*in_wheels, "libcupti.so.13", "libcupti.so.12", "libcupti.so"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(path)
    raise KernelsUnreadableError(
        "no libcupti.so in this environment (pip install nvidia-cuda-cupti)"
    )
