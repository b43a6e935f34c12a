"""AVX-512 in the code of a library for x86-64, found without a disassembler.

Its instructions begin with the EVEX prefix (Intel's Software Developer's Manual, volume 2,
"EVEX Prefix"), four bytes of which chance makes few: code without them has one such place in 20,000
bytes or more, code that was compiled for them one in fewer than 1,000.
"""

from __future__ import annotations

import re
from typing import IO

from cuwheel.base.formats.binaries.elf import Section

_SAMPLE, _WHOLE = 256 << 10, 64 << 20  # bytes that are read of the code
_SHARE, _LEAST = 1500, 3  # bytes for each place, and places, of code compiled for AVX-512


def _set(*bits: tuple[int, int]) -> bytes:
    """Return a set of the bytes that have these values under these masks."""
    fitting = (b for b in range(256) if all(b & mask == value for mask, value in bits))
    return b"[" + b"".join(b"\\x%02x" % b for b in fitting) + b"]"


# 0x62; one of the opcode maps 1 to 3; the fixed bit; 512 bits.
_EVEX = re.compile(b"\x62" + _set((0x0C, 0)) + _set((4, 4)) + _set((0x60, 0x40)))
# `cpuid` and `xgetbv`, with which code asks what a CPU has.
_ASKS = re.compile(rb"\x0f\xa2|\x0f\x01\xd0")


def needs_avx512(stream: IO[bytes], code: Section) -> bool:
    """Return True for code with many instructions of AVX-512 that never asks for them.

    Args:
        code: a library's section `.text`.
    """
    size = min(code.size, _SAMPLE)
    stream.seek(code.offset + (code.size - size) // 2)
    places = len(_EVEX.findall(stream.read(size)))
    if places < _LEAST or places * _SHARE < size or code.size > _WHOLE:
        return False
    stream.seek(code.offset)
    return _ASKS.search(stream.read(code.size)) is None
