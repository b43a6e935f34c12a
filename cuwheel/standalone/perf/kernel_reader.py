"""Which kernels a call runs on the GPU, and for how long: CUPTI's activity records, through ctypes.

It is the library that PyTorch and JAX bring for their own profilers, so that the same reading
serves every framework and packages without one. Standard library only, Python 3.9 or newer.

Sources: cupti_activity.h of CUDA 12 and 13 (`CUpti_ActivityKernel9` and `…10` agree in all fields
up to the name; NVIDIA appends fields), cupti_result.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_CONCURRENT_KERNEL = 10  # CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
_BUFFER = 4 << 20  # bytes; a record takes about 200
_ALIGNMENT = 8  # bytes, ACTIVITY_RECORD_ALIGNMENT
_HEAD = struct.Struct("<I12xQQ8xI")  # kind, start and end in nanoseconds, the GPU's number
_NAME = 104  # where the name's address stands

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
    """CUPTI isn't there, or the driver doesn't let it read."""


class KernelReader:
    """Reads the kernels of calls. One for a process, as CUPTI has one set of callbacks.

    Raises:
        KernelsUnreadableError: there is no CUPTI, or it refuses.
    """

    def __init__(self) -> None:
        """Load CUPTI and give it buffers; nothing is recorded yet."""
        self._cupti = _load()
        self._buffers: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._found: list[tuple[str, int, int]] = []
        self._callbacks = (_REQUEST(self._give_buffer), _COMPLETE(self._take_buffer))
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)

    def read(self, call: Callable[[], object], wait: Callable[[], object]) -> list[dict[str, Any]]:
        """The kernels that a call runs: name as the compiler mangled it, GPU, count, nanoseconds.

        One that runs on two GPUs is two of them. GPUs are numbered as CUDA does in this process.

        Args:
            call: what is read.
            wait: returns when all of its work is done.
        """
        wait()
        self._call("cuptiActivityFlushAll", _FORCED)
        self._found.clear()
        self._call("cuptiActivityEnable", _CONCURRENT_KERNEL)
        try:
            call()
            wait()
            self._call("cuptiActivityFlushAll", _FORCED)
        finally:
            self._call("cuptiActivityDisable", _CONCURRENT_KERNEL)
        kernels: dict[tuple[str, int], list[int]] = {}
        for name, gpu, nanoseconds in self._found:
            kernels.setdefault((name, gpu), []).append(nanoseconds)
        return [
            {"name": name, "gpu": gpu, "count": len(times), "nanoseconds": sum(times)}
            for (name, gpu), times in kernels.items()
        ]

    def _give_buffer(self, buffer: Any, size: Any, limit: Any) -> None:
        made = ctypes.create_string_buffer(_BUFFER + _ALIGNMENT)
        start = -(-ctypes.addressof(made) // _ALIGNMENT) * _ALIGNMENT
        self._buffers[start] = made
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
                self._found.append((name.decode("utf-8", "replace"), gpu, end - start))
        self._buffers.pop(buffer, None)

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._cupti, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cupti.cuptiGetResultString(status, ctypes.byref(text))
            said = (text.value or b"").decode()
            raise KernelsUnreadableError(f"{function} says {said or status}")


def _load() -> ctypes.CDLL:
    """CUPTI of this environment's wheels, else where the loader finds one."""
    for path in (*_in_wheels(), "libcupti.so.13", "libcupti.so.12", "libcupti.so"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(path)
    raise KernelsUnreadableError(
        "no libcupti.so in this environment (pip install nvidia-cuda-cupti)"
    )


def _in_wheels() -> list[str]:
    found = importlib.util.find_spec("nvidia")
    folders = list(found.submodule_search_locations or []) if found else []
    return [
        path
        for folder in folders
        for form in ("cu*/lib/libcupti.so.*", "cuda_cupti/lib/libcupti.so.*")
        for path in sorted(map(str, Path(folder).glob(form)))
    ]
