"""The release of CUDA's runtime that is linked into a library, read from its code.

Nothing in a stripped file names it. `cudaRuntimeGetVersion` is there in every copy, though, and has
the number in its code: the same instructions in libcudart of CUDA 11.8, 12.1, 12.8 and 13.0 to
13.5, and in the wheels that linked libcudart_static of these (cupy-cuda11x 13.6.0, ctranslate2
4.8.5, xgboost 3.4.1). Of x86-64 only; a file for another machine says nothing.
"""

from __future__ import annotations

import re
import struct
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from cuwheel.binaries.elf import Section

# What the runtime says of the error `cudaErrorInsufficientDriver`.
CUDART_TEXT = b"CUDA driver version is insufficient for CUDA runtime version"

# test %rdi,%rdi; je …; movl $13000,(%rdi); xor %eax,%eax
_VERSION = re.compile(rb"\x48\x85\xff\x74.\xc7\x07(.{4})\x31\xc0", re.DOTALL)
_LENGTH = 13  # bytes of these instructions
_WINDOW = 1 << 20  # bytes
_MAJOR, _MINOR = 1000, 10  # 13020 is 13.2
_KNOWN = range(9 * _MAJOR, 100 * _MAJOR)


def linked_cudart(stream: IO[bytes], code: Section) -> str:
    """The release of the runtime in a library, `13.0`; empty where none is found.

    Args:
        stream: the file, which has `CUDART_TEXT`.
        code: its section `.text`.
    """
    stream.seek(code.offset)
    left, tail = code.size, b""
    while left and (piece := stream.read(min(left, _WINDOW))):
        left -= len(piece)
        for found in _VERSION.finditer(tail + piece):
            (number,) = struct.unpack("<I", found[1])
            if number in _KNOWN and number % _MINOR == 0:
                return f"{number // _MAJOR}.{number % _MAJOR // _MINOR}"
        tail = (tail + piece)[1 - _LENGTH :]
    return ""
