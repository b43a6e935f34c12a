"""The release of CUDA's runtime that is linked into a library, read from its code.

Nothing in a stripped file names it. `cudaRuntimeGetVersion` is there in every copy, though, and has
the number in its code: on x86-64 the same instructions in libcudart of CUDA 11.8, 12.1, 12.8 and
13.0 to 13.5, and in the wheels that linked libcudart_static of these (cupy-cuda11x 13.6.0,
ctranslate2 4.8.5, xgboost 3.4.1); on aarch64 in libcudart of CUDA 12.4, 12.8, 13.0 and 13.5. A file
for another machine says nothing.
"""

from __future__ import annotations

import re
import struct
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from cuwheel.binaries.elf import Section

# What the runtime says of the error `cudaErrorInsufficientDriver`.
CUDART_TEXT = b"CUDA driver version is insufficient for CUDA runtime version"

# The number as an instruction has it, between those around it that no other function has.
_VERSIONS = {
    # test %rdi,%rdi; je …; movl $13000,(%rdi); xor %eax,%eax
    "EM_X86_64": re.compile(rb"\x48\x85\xff\x74.\xc7\x07(.{4})\x31\xc0", re.DOTALL),
    # mov w2, #13000; mov w0, #0; str w2, [x1]; ret
    "EM_AARCH64": re.compile(
        rb"(.{2}[\x80-\x9f]\x52)\x00\x00\x80\x52\x22\x00\x00\xb9\xc0\x03\x5f\xd6", re.DOTALL
    ),
}
_LENGTH = 16  # bytes of the longer of these
_IMMEDIATE, _REGISTER = 5, 0x1F  # of `mov`: where its 16 bits begin, and where they go to
_INTO = 2  # w2
_WINDOW = 1 << 20  # bytes
_MAJOR, _MINOR = 1000, 10  # 13020 is 13.2
_KNOWN = range(9 * _MAJOR, 100 * _MAJOR)


def linked_cudart(stream: IO[bytes], code: Section, machine: str) -> str:
    """The release of the runtime in a library, `13.0`; empty where none is found.

    Args:
        stream: the file, which has `CUDART_TEXT`.
        code: its section `.text`.
        machine: that it is for, `EM_X86_64`.
    """
    pattern = _VERSIONS.get(machine)
    if pattern is None:
        return ""
    stream.seek(code.offset)
    left, tail = code.size, b""
    while left and (piece := stream.read(min(left, _WINDOW))):
        left -= len(piece)
        for found in pattern.finditer(tail + piece):
            number = _number(found[1], machine)
            if number in _KNOWN and number % _MINOR == 0:
                return f"{number // _MAJOR}.{number % _MAJOR // _MINOR}"
        tail = (tail + piece)[1 - _LENGTH :]
    return ""


def _number(field: bytes, machine: str) -> int:
    """The number in an instruction (Arm Architecture Reference Manual, "MOV (wide immediate)")."""
    (word,) = struct.unpack("<I", field)
    if machine == "EM_X86_64":
        return int(word)
    return word >> _IMMEDIATE & 0xFFFF if word & _REGISTER == _INTO else 0
