"""A CUDA library of two separately compiled parts behind ctypes."""

from __future__ import annotations

import ctypes
from pathlib import Path

__version__ = "1.0.0"

_LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("libtiny_rdc.so")))
_LIBRARY.tiny_source.restype = ctypes.c_char_p


def answer() -> int:
    """42, if a CUDA runtime and a cuBLAS of release 13 answer; needs no GPU."""
    return int(_LIBRARY.tiny_answer())


def cublas_version() -> int:
    """What cuBLAS says of itself, 1301 for 13.1; needs no GPU."""
    return int(_LIBRARY.tiny_cublas_version())


def source() -> str:
    """The file that the library was compiled from, as the compiler saw it."""
    return str(_LIBRARY.tiny_source().decode())


def sum_of_squares(values: list[float]) -> float:
    """Square on the GPU and sum with cuBLAS."""
    numbers = (ctypes.c_float * len(values))(*values)
    total = ctypes.c_float()
    if _LIBRARY.tiny_sum_of_squares(numbers, len(values), ctypes.byref(total)):
        raise RuntimeError("CUDA or cuBLAS failed")
    return total.value
