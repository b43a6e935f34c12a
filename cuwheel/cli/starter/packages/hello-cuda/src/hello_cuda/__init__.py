"""A CUDA library behind ctypes."""

from __future__ import annotations

import ctypes
from pathlib import Path

_LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("libhello_cuda.so")))


def runtime_version() -> int:
    """What the CUDA runtime library says of itself, 13000 for 13.0; needs no GPU."""
    return int(_LIBRARY.hello_runtime_version())


def scale(values: list[float], factor: float) -> list[float]:
    """Multiply on the GPU."""
    numbers = (ctypes.c_float * len(values))(*values)
    status = _LIBRARY.hello_scale(numbers, len(values), ctypes.c_float(factor))
    if status:
        raise RuntimeError(f"CUDA error {status}")
    return list(numbers)
