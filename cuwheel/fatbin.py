"""Which GPUs the device code in an ELF file is for, read without any CUDA tool.

The format is not documented by NVIDIA. The offsets below were read off files that nvcc 13.0.88
made (several `-gencode`, `sm_90a`, `sm_100f`, every `--compress-mode`, `-rdc=true`) and agree with
what `cuobjdump -lelf -lptx` says of the same files. `fatbinary_section.h` of the toolkit names the
sections.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The first holds what the driver loads. The second is input of the device link, which `-rdc=true`
# leaves in the linked library; no GPU ever runs it.
LOADED_SECTION = ".nv_fatbin"
RELOCATABLE_SECTION = "__nv_relfatbin"

# A container: magic (u32), version (u16), header size (u16), size of what follows (u64).
_CONTAINER = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
# An element: kind (u16), version (u16), header size (u32), size of what follows (u64), twelve
# bytes of other use, arch (u32), eight more, flags (u64).
_ELEMENT = struct.Struct("<HHIQ12xI8xQ")
_PTX = 1
_SASS = 2
_FLAG_ARCH_SPECIFIC = 1 << 20  # sm_90a
_FLAG_FAMILY_SPECIFIC = 1 << 21  # sm_100f
_CHUNK = 1 << 20  # bytes


class FatbinFormatError(ValueError):
    """A section that should hold device code can't be read as such."""


@dataclass(frozen=True, kw_only=True)
class DeviceCode:
    """Archs of the device code in one section, sorted: `("80", "90", "90a")`.

    Attributes:
        sass: those with machine code.
        ptx: those with PTX, which newer GPUs can compile for themselves.
    """

    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()


def read_device_code(stream: IO[bytes], offset: int, size: int) -> DeviceCode:
    """Read the archs of a section with device code; only headers are read, payloads are skipped.

    A link by nvcc adds an empty module for each arch of the link command; it counts like any other.

    Args:
        stream: the ELF file, seekable.
        offset: where the section begins, bytes.
        size: its length, bytes.

    Raises:
        FatbinFormatError: the section holds something else.
    """
    try:
        elements = list(_elements(stream, offset, offset + size))
    except struct.error:
        raise FatbinFormatError("the device code ends in the middle of a header") from None
    return DeviceCode(
        sass=sort_archs(arch for kind, arch in elements if kind == _SASS),
        ptx=sort_archs(arch for kind, arch in elements if kind == _PTX),
    )


def sort_archs(archs: Iterable[str]) -> tuple[str, ...]:
    """Archs without repetition, oldest GPU first: `90` before `90a` before `100`."""
    return tuple(sorted(set(archs), key=lambda arch: (int(arch.rstrip("af")), arch)))


def _elements(stream: IO[bytes], start: int, end: int) -> Iterator[tuple[int, str]]:
    """Kind and arch of every element of every container in a section."""
    place = start
    while (place := _skip_padding(stream, place, end)) < end:
        magic, _, header, size = _CONTAINER.unpack(_read(stream, place, _CONTAINER.size))
        if magic != _MAGIC or header < _CONTAINER.size or place + header + size > end:
            raise FatbinFormatError(f"no fat binary at byte {place - start} of the device code")
        yield from _container_elements(stream, place + header, place + header + size)
        place += header + size


def _container_elements(stream: IO[bytes], place: int, end: int) -> Iterator[tuple[int, str]]:
    while place < end:
        kind, _, header, size, arch, flags = _ELEMENT.unpack(_read(stream, place, _ELEMENT.size))
        if header < _ELEMENT.size or place + header + size > end:
            raise FatbinFormatError(f"a fat binary has an element of impossible size {size}")
        yield kind, f"{arch}{_suffix(flags)}"
        place += header + size


def _suffix(flags: int) -> str:
    if flags & _FLAG_ARCH_SPECIFIC:
        return "a"
    return "f" if flags & _FLAG_FAMILY_SPECIFIC else ""


def _skip_padding(stream: IO[bytes], place: int, end: int) -> int:
    """The first byte from `place` on that isn't zero: linkers align containers with zeros."""
    while place < end:
        chunk = _read(stream, place, min(_CHUNK, end - place))
        if not chunk:
            break
        used = chunk.lstrip(b"\0")
        place += len(chunk) - len(used)
        if used:
            return place
    return end


def _read(stream: IO[bytes], place: int, size: int) -> bytes:
    stream.seek(place)
    return stream.read(size)
