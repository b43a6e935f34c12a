"""Device code in a file: every element of its fat binaries, unpacked.

NVIDIA doesn't document the format. `fatbin` has the known facts about containers; the other fields
of an element were read off files that nvcc 13.0.88 made with every `--compress-mode`, with
`-lineinfo` and with `-Xptxas`, and hold for the libraries of bitsandbytes 0.49.1, which come from
CUDA 11.8 to 13.0.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator
from typing import IO, Literal, NamedTuple

import zstandard
from lz4.block import LZ4BlockError as _Lz4Error  # type: ignore[attr-defined]
from lz4.block import decompress as _unpack_lz4  # type: ignore[attr-defined]

from cuwheel.base import limits
from cuwheel.base.formats.binaries.archs import arch_suffix
from cuwheel.base.formats.binaries.fatbin import Fatbin, FatbinFinder
from cuwheel.base.formats.binaries.windows import Windows

Kind = Literal["PTX", "SASS", "LTO", "other"]
Packing = Literal["none", "LZ4", "zstd"]

_CONTAINER = 16  # bytes, of the header before a container's elements
# An element: kind (u16), version (u16), header size (u32), size of its code (u64), size of that
# without padding (u32), offset of the options' place (u32), version of the code (u16, u16), arch
# (u32), offset and length of the source's name (u32, u32), flags (u64), unused (u64), unpacked
# size (u64).
_ELEMENT = struct.Struct("<HHIQIIHHIIIQQQ")
_HEADER_SIZE = struct.Struct("<4xI")
_TEXT = struct.Struct("<II")  # offset of a text from the element, and its length
_KINDS: dict[int, Kind] = {1: "PTX", 2: "SASS", 8: "LTO"}
_LZ4 = 1 << 13
_ZSTD = 1 << 15
_CHUNK = 1 << 20  # bytes


class DeviceCodeError(ValueError):
    """An element of a fat binary can't be unpacked."""


class Element(NamedTuple):
    """Device code of one kind for one arch, packed in a fat binary.

    Attributes:
        fatbin: number of the fat binary in the file, from 1.
        arch: `90`, `90a`.
        offset: of the packed code in the file, bytes.
        size: of it, bytes.
        unpacked_size: bytes.
        source: the source's name, which fatbinary notes for `-lineinfo` and `-G`.
        options: of the command line; PTX has it as text.
        digest: SHA-256 of the packed code.
    """

    fatbin: int
    kind: Kind
    arch: str
    packing: Packing
    offset: int
    size: int
    unpacked_size: int
    source: str
    options: bytes
    digest: bytes

    @property
    def name(self) -> str:
        """Name as in NVIDIA's tools: `SASS sm_90`, `PTX compute_90`."""
        return f"{self.kind} {'sm' if self.kind == 'SASS' else 'compute'}_{self.arch}"


def find_fatbins(stream: IO[bytes]) -> tuple[Fatbin, ...]:
    """Return all fat binaries of a file, in its order."""
    finder, windows = FatbinFinder(stream.seek(0, io.SEEK_END)), Windows()
    stream.seek(0)
    while piece := stream.read(_CHUNK):
        for window in windows.feed(piece):
            finder.search(window)
    finder.search(windows.finish())
    return finder.found


def elements_of(stream: IO[bytes], fatbins: tuple[Fatbin, ...]) -> Iterator[Element]:
    """Yield the elements of some fat binaries of a file, in its order, with their code hashed."""
    for number, fatbin in enumerate(fatbins, 1):
        stream.seek(fatbin.offset + _CONTAINER - 8)
        offset = fatbin.offset + _CONTAINER
        end = offset + int.from_bytes(stream.read(8), "little")
        while offset < end:
            element, size = _read_element(stream, number, offset)
            yield element
            offset += size


def code_of_element(stream: IO[bytes], element: Element) -> bytes:
    """Return an element's unpacked code: a cubin, or PTX as text without the zeros behind it.

    Raises:
        DeviceCodeError: it is damaged.
    """
    size = max(element.size, element.unpacked_size)
    if size > limits.DEVICE_CODE:
        raise DeviceCodeError(
            f"{element.name} claims to be {size} bytes long; at most {limits.DEVICE_CODE} are read"
        )
    stream.seek(element.offset)
    code = stream.read(element.size)
    try:
        if element.packing == "LZ4":
            code = bytes(_unpack_lz4(code, uncompressed_size=element.unpacked_size))
        elif element.packing == "zstd":
            with zstandard.ZstdDecompressor().stream_reader(code) as reader:
                code = reader.read(element.unpacked_size)
    except (zstandard.ZstdError, _Lz4Error, MemoryError) as problem:
        raise DeviceCodeError(f"{element.name} can't be unpacked: {problem}") from None
    if len(code) != element.unpacked_size:  # zstd doesn't report the end of its input
        raise DeviceCodeError(f"{element.name} can't be unpacked: it is truncated")
    return code.rstrip(b"\0") if element.kind == "PTX" else code


def _read_element(stream: IO[bytes], fatbin: int, offset: int) -> tuple[Element, int]:
    stream.seek(offset)
    start = stream.read(_ELEMENT.size)
    # `FatbinFinder` accepts shorter headers.
    (header,) = _HEADER_SIZE.unpack_from(start)
    fields = _ELEMENT.unpack(start[:header].ljust(_ELEMENT.size, b"\0"))
    kind, _, header, padded, size, options, _, _, arch, name, name_size, flags, _, unpacked = fields
    extra = stream.read(min(max(0, header - _ELEMENT.size), limits.ELEMENT_HEADER))
    stream.seek(offset + header)
    place = _part(extra, options, _TEXT.size)
    packing: Packing = "zstd" if flags & _ZSTD else "LZ4" if flags & _LZ4 else "none"
    size = size if packing != "none" else padded
    element = Element(
        fatbin=fatbin,
        kind=_KINDS.get(kind, "other"),
        arch=f"{arch}{arch_suffix(flags)}",
        packing=packing,
        offset=offset + header,
        size=size,
        unpacked_size=unpacked if packing != "none" else size,
        source=_part(extra, name, name_size).rstrip(b"\0").decode("utf-8", "replace"),
        options=_part(extra, *_TEXT.unpack(place)) if len(place) == _TEXT.size else b"",
        digest=_digest(stream, size),
    )
    return element, header + padded


def _part(extra: bytes, offset: int, size: int) -> bytes:
    start = offset - _ELEMENT.size
    return extra[start : start + size] if start >= 0 else b""


def _digest(stream: IO[bytes], size: int) -> bytes:
    digest = hashlib.sha256()
    while size > 0 and (piece := stream.read(min(size, _CHUNK))):
        digest.update(piece)
        size -= len(piece)
    return digest.digest()
