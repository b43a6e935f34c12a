"""The GPU through its driver: what it is, the rate of a plain copy, its L2 emptied. ctypes only.

So that packages without a framework are measured as the others are. Standard library only, Python
3.9 or newer.

Source: cuda.h (`CUdevice_attribute`, and the functions' names with their `_v2`).
"""

from __future__ import annotations

import ctypes
import uuid
from typing import Any

_SM_COUNT, _L2_BYTES, _MAJOR, _MINOR = 16, 38, 75, 76  # CU_DEVICE_ATTRIBUTE_…
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_COPIED = 1 << 30  # bytes: many times any L2
_COPIES = 10
_FLUSHED = 2  # times the L2, so that nothing of it stays


class NoGpuError(Exception):
    """There is no driver, or no GPU that it would give."""


class Gpu:
    """A GPU that this process may use, in its primary context.

    Args:
        ordinal: CUDA's number of it in this process, from 0.

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
            raise NoGpuError(f"the driver finds no GPU: {self._say(status)}")
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), ordinal)
        self._context: Any = None
        self._scratch: Any = None

    def facts(self) -> dict[str, Any]:
        """Name, UUID, compute capability, multiprocessors, bytes of L2 and of memory."""
        name, made = ctypes.create_string_buffer(128), ctypes.create_string_buffer(16)
        total, driver = ctypes.c_size_t(), ctypes.c_int()
        self._call("cuDeviceGetName", name, len(name), self._device)
        self._call("cuDeviceGetUuid_v2", made, self._device)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(total), self._device)
        self._call("cuDriverGetVersion", ctypes.byref(driver))
        return {
            "name": name.value.decode(),
            "uuid": f"GPU-{uuid.UUID(bytes=made.raw)}",
            "capability": f"{self._attribute(_MAJOR)}{self._attribute(_MINOR)}",
            "multiprocessors": self._attribute(_SM_COUNT),
            "l2": self._attribute(_L2_BYTES),
            "memory": total.value,
            "cuda": f"{driver.value // 1000}.{driver.value % 1000 // 10}",
            "gpus": self.count(),
        }

    def count(self) -> int:
        """How many GPUs this process may use."""
        found = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def free_memory(self) -> int:
        """Bytes that nobody has taken."""
        self._enter()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def flush(self) -> None:
        """Write over the L2, and wait until that is done."""
        self._enter()
        size = _FLUSHED * max(self._attribute(_L2_BYTES), 1 << 20)
        if self._scratch is None:
            self._scratch = self._allocate(size)
        self._call("cuMemsetD8_v2", self._scratch, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        self._call("cuCtxSynchronize")

    def copy_rate(self) -> float:
        """Bytes a second that a plain copy within the memory reads and writes, the best of ten."""
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
            raise kind(f"{function} says {self._say(status)}")

    def _say(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorString(status, ctypes.byref(text))
        return (text.value or b"").decode() or str(status)
