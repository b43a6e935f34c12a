"""Release of CUDA's runtime that is linked into a library, read from its code.

A stripped file doesn't name it. But every copy has `cudaRuntimeGetVersion`, with the number in its
code: on x86-64 the same instructions in libcudart of CUDA 11.8, 12.1, 12.8 and
13.0 to 13.5, and in the wheels that linked libcudart_static of these (cupy-cuda11x 13.6.0,
ctranslate2 4.8.5, xgboost 3.4.1); on aarch64 in libcudart of CUDA 12.4, 12.8, 13.0 and 13.5. Other
machines aren't supported.
"""

from __future__ import annotations

import re
import struct
from typing import IO

from cuwheel.base.formats.binaries.elf import Section

# The runtime's message for `cudaErrorInsufficientDriver`.
CUDART_TEXT = b"CUDA driver version is insufficient for CUDA runtime version"

# The instruction with the number, between others that no other function has.
_VERSIONS = {
    # test %rdi,%rdi; je …; movl $13000,(%rdi); xor %eax,%eax
    "EM_X86_64": re.compile(rb"\x48\x85\xff\x74.\xc7\x07(.{4})\x31\xc0", re.DOTALL),
    # mov w2, #13000; mov w0, #0; str w2, [x1]; ret
    "EM_AARCH64": re.compile(
        rb"(.{2}[\x80-\x9f]\x52)\x00\x00\x80\x52\x22\x00\x00\xb9\xc0\x03\x5f\xd6", re.DOTALL
    ),
}
_LENGTH = 16  # bytes of the longer of these
_IMMEDIATE, _REGISTER = 5, 0x1F  # of `mov`: shift of its 16 bits, mask of its target
_INTO = 2  # w2
_WINDOW = 1 << 20  # bytes
_MAJOR, _MINOR = 1000, 10  # 13020 is 13.2
_KNOWN = range(9 * _MAJOR, 100 * _MAJOR)


def linked_cudart(stream: IO[bytes], code: Section, machine: str) -> str:
    """Return the release of the runtime in a library with `CUDART_TEXT`, `13.0`; else empty.

    Args:
        code: its section `.text`.
        machine: that it is for, `EM_X86_64`.
    """
    pattern = _VERSIONS.get(machine)
    if pattern is None:
        return ""
    stream.seek(code.offset)
    remaining, tail = code.size, b""
    while remaining and (piece := stream.read(min(remaining, _WINDOW))):
        remaining -= len(piece)
        for match in pattern.finditer(tail + piece):
            (number,) = struct.unpack("<I", match[1])
            if machine == "EM_AARCH64":  # Arm ARM, "MOV (wide immediate)"
                number = number >> _IMMEDIATE & 0xFFFF if number & _REGISTER == _INTO else 0
            if number in _KNOWN and number % _MINOR == 0:
                return f"{number // _MAJOR}.{number % _MAJOR // _MINOR}"
        tail = (tail + piece)[1 - _LENGTH :]
    return ""
