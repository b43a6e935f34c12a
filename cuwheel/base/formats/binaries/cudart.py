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
_JUMP = 5  # bytes from the beginning of the first to where its `je` counts from
_IMMEDIATE, _REGISTER = 5, 0x1F  # of `mov`: shift of its 16 bits, mask of its target
_INTO = 2  # w2
_WINDOW = 1 << 20  # bytes
_MAJOR, _MINOR = 1000, 10  # 13020 is 13.2
# Minor releases of CUDA: NVIDIA's "CUDA Toolkit Archive". No major has had more than ten.
_MINORS = {9: range(3), 10: range(3), 11: range(9), 12: (*range(7), 8, 9)}
_MOVED, _INTO_W0 = 0xFFE0001F, 0x52800000  # mov w0, #…
_INVALID_VALUE = 1  # `cudaErrorInvalidValue`, driver_types.h


def linked_cudart(stream: IO[bytes], code: Section, machine: str) -> str:
    """Return the release of the runtime in a library with `CUDART_TEXT`, `13.0`; else empty.

    Version functions of other libraries have the same form: `cusolverGetVersion` of cuSOLVER 12.2
    writes 12200. They return another error than `cudaErrorInvalidValue` for a null pointer.

    Args:
        code: its section `.text`.
        machine: that it is for, `EM_X86_64`.
    """
    pattern = _VERSIONS.get(machine)
    if pattern is None:
        return ""
    places: dict[str, list[int]] = {}
    stream.seek(code.offset)
    remaining, tail, at = code.size, b"", code.offset
    while remaining and (piece := stream.read(min(remaining, _WINDOW))):
        remaining -= len(piece)
        for match in pattern.finditer(tail + piece):
            if release := _release(match[1], machine):
                start = at - len(tail) + match.start()
                is_arm = machine == "EM_AARCH64"
                error = start + _LENGTH if is_arm else start + _JUMP + match[0][_JUMP - 1]
                places.setdefault(release, []).append(error)
        at += len(piece)
        tail = (tail + piece)[1 - _LENGTH :]
    errors = {release: [_error(stream, at) for at in found] for release, found in places.items()}
    sure = [release for release, codes in errors.items() if _INVALID_VALUE in codes]
    possible = [release for release, codes in errors.items() if None in codes]
    releases = sure or possible
    return releases[0] if len(releases) == 1 else ""


def _release(immediate: bytes, machine: str) -> str:
    """Return the release of CUDA that a number stands for; empty if there is none."""
    (number,) = struct.unpack("<I", immediate)
    if machine == "EM_AARCH64":  # Arm ARM, "MOV (wide immediate)"
        number = number >> _IMMEDIATE & 0xFFFF if number & _REGISTER == _INTO else 0
    major, rest = divmod(number, _MAJOR)
    minor, patch = divmod(rest, _MINOR)
    newer = range(10) if max(_MINORS) < major < 100 else ()  # noqa: PLR2004 - two digits
    return f"{major}.{minor}" if not patch and minor in _MINORS.get(major, newer) else ""


def _error(stream: IO[bytes], offset: int) -> int | None:
    """Return the constant that a function returns at once; None: it does something else first."""
    stream.seek(offset)
    code = stream.read(6)
    if code.startswith((b"\xc3", b"\x31\xc0\xc3")):  # ret, also after xor %eax,%eax
        return 0
    if code[:1] == b"\xb8" and code[5:] == b"\xc3":  # mov $1,%eax; ret
        return int.from_bytes(code[1:5], "little")
    number = int.from_bytes(code[:4], "little")
    return number >> _IMMEDIATE & 0xFFFF if number & _MOVED == _INTO_W0 else None
