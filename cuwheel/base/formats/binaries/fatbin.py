"""Archs of the device code in a file, read without any CUDA tool.

NVIDIA doesn't document the format. The offsets below were read off files that nvcc 13.0.88 made
(several `-gencode`, `sm_90a`, `sm_100f`, `lto_80`, every `--compress-mode`, `-rdc=true`) and agree
with the output of `cuobjdump -lelf -lptx` for the same files, and for NVIDIA's own libraries of
CUDA 12 and 13. `fatbinary_section.h` of the toolkit names the sections. Code for tiles (nvcc 13.5,
`-enable-tile`) is a fat binary of its own in the same section.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import IO, NamedTuple

from cuwheel.base import limits
from cuwheel.base.formats.binaries.archs import (
    DeviceCode,
    arch_suffix,
    archs_for,
    runs_on,
    sort_archs,
)
from cuwheel.base.formats.binaries.elf import Section
from cuwheel.base.formats.binaries.windows import Window

# The first holds the code that the driver loads. The second is input of the device link, which
# `-rdc=true` leaves in the linked library; no GPU runs it. NVIDIA's have fat binaries in other
# sections too: cuFFT in `.data` and `.ldata`, cuBLASLt, cuDNN and cuTENSOR in `.cask_resource`.
LOADED_SECTION = ".nv_fatbin"
RELOCATABLE_SECTION = "__nv_relfatbin"

# A container: magic (u32), version (u16), header size (u16), size of its elements (u64).
_CONTAINER = struct.Struct("<8xQ")
_START = struct.pack("<IHH", 0xBA55ED50, 1, _CONTAINER.size)
# An element: kind (u16), version (u16), header size (u32), size of its code (u64), eight bytes of
# other use, version of the code (u16 minor, u16 major: of PTX that of its ISA), arch (u32), eight
# more, flags (u64).
_ELEMENT = struct.Struct("<HHIQ8xHHI8xQ")
_ZSTD = 1 << 15  # of the flags
_DEBUG = 1 << 1  # compiled with `nvcc -G`
_LZ4 = 1 << 13
_MAGIC = b"\x7fELF"
# The place of the table of sections, the size of an entry, how many, and which has their names;
# an entry's kind, offset and size (System V ABI).
_ELF = struct.Struct("<40xQ10xHHH")
_SECTION = struct.Struct("<4xI16xQQ")
_STRINGS = 3  # SHT_STRTAB
PTX = 1
SASS = 2
_LTO = 8
_TILE = 128
_CHUNK = 1 << 20  # bytes
_NOT_ZERO = re.compile(rb"[^\0]")
_PTX_VERSION = re.compile(rb"^\s*\.version\s+(\d+)\.(\d+)\b", re.MULTILINE)
_PTX_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+[af]?)\b", re.MULTILINE)


class FatbinFormatError(ValueError):
    """A section for device code can't be read as such."""


class ElementKind(NamedTuple):
    """The kind of an element of a fat binary.

    Attributes:
        version: of the ISA of PTX; (0, 0) of other code.
        is_debug: compiled without optimisation, for a debugger.
    """

    kind: int
    arch: str
    version: tuple[int, int]
    is_zstd: bool
    is_debug: bool = False


class Fatbin(NamedTuple):
    """Fat binary in a file.

    Attributes:
        offset: in the file, bytes.
        padded_end: end of the zeros behind it, bytes: linkers align with them.
    """

    offset: int
    padded_end: int
    elements: frozenset[ElementKind]


class ElementPlace(NamedTuple):
    """Place of an element in a file: offset and size of header and code together, in bytes."""

    offset: int
    size: int
    element: ElementKind


_OFFSET = attrgetter("offset")


class FatbinFinder:
    """Search for every fat binary in a file that is read from end to end; payloads are skipped.

    Args:
        size: of the file, bytes.

    Attributes:
        sizes: bytes of all code of a kind in the found ones, with its headers.
        has_damage: machine code that isn't compressed is no cubin, or has lost its names.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._found: list[Fatbin] = []
        self._offset = 0  # of the next read; may lie far ahead
        self._open: tuple[int, int] | None = None  # the current container: offset, end
        self._elements: set[ElementKind] = set()
        self.sizes: Counter[ElementKind] = Counter()
        self._open_sizes: Counter[ElementKind] = Counter()
        # Thousands of fat binaries hold the same few kinds: equal sets are kept once.
        self._kept: dict[frozenset[ElementKind], frozenset[ElementKind]] = {}
        self._is_padding = False  # behind a container
        self.has_damage = False

    @property
    def has_too_many(self) -> bool:
        """True if there are more fat binaries, or kinds of code, than in any real file."""
        return len(self._found) > limits.FATBINS or len(self._kept) > limits.ELEMENTS

    @property
    def found(self) -> tuple[Fatbin, ...]:
        """All of them, in the file's order."""
        return tuple(self._found)

    @property
    def unfinished(self) -> frozenset[ElementKind]:
        """The elements so far of one that goes beyond what was searched."""
        return frozenset(self._elements) if self._open else frozenset()

    def search(self, window: Window) -> None:
        """Search the next part of the file, until `has_too_many`."""
        if self.has_too_many:
            return
        end = window.offset + window.end
        self._offset = max(self._offset, window.offset + window.begin)
        while self._offset < end and not self.has_too_many:
            if self._open:
                self._read_element(window, self._open[1])
            elif self._is_padding:
                used = _NOT_ZERO.search(window.data, self._offset - window.offset, window.end)
                self._offset = window.offset + (used.start() if used else window.end)
                self._found[-1] = self._found[-1]._replace(padded_end=self._offset)
                self._is_padding = not used
            else:
                self._find(window)

    def _find(self, window: Window) -> None:
        """Go to the next container, or to the window's end."""
        at = window.data.find(_START, self._offset - window.offset, window.end + len(_START) - 1)
        self._offset = window.offset + (at if at >= 0 else window.end)
        if at < 0:
            return
        header = window.data[at : at + _CONTAINER.size]
        size = _CONTAINER.unpack(header)[0] if len(header) == _CONTAINER.size else self._size
        begin = self._offset + _CONTAINER.size
        if begin + size > self._size:  # programs that write fat binaries hold the eight bytes too
            self._offset += 1
            return
        self._open, self._elements = (self._offset, begin + size), set()
        self._open_sizes.clear()
        self._offset = begin
        self._close_at_end()

    def _read_element(self, window: Window, end: int) -> None:
        at = self._offset - window.offset
        fields = window.data[at : at + _ELEMENT.size]
        if len(fields) < _ELEMENT.size:
            fields = bytes(_ELEMENT.size)
        code, header, size = _parse_element(fields)
        if _is_plain_code(fields):
            self.has_damage |= _is_damaged(window.data[at + header : at + header + size])
        if header < _ELEMENT.size or self._offset + header + size > end:
            self._open = None  # no fat binary, or a damaged one
            self._offset += 1
            return
        self._elements.add(code)
        self._open_sizes[code] += header + size
        if len(self._elements) > limits.ELEMENTS:
            self._open = None  # nothing is compiled for so many
        self._offset += header + size
        self._close_at_end()

    def _close_at_end(self) -> None:
        """Record the container, if all of it was read; a link of only PTX adds an empty one."""
        if self._open and self._offset == self._open[1]:
            elements = frozenset(self._elements)
            shared = self._kept.setdefault(elements, elements)
            self._found.append(Fatbin(*self._open, shared))
            self.sizes.update(self._open_sizes)
            self._open, self._is_padding = None, True


def _is_plain_code(fields: bytes) -> bool:
    """Return True for machine code that isn't compressed."""
    kind, *_, flags = _ELEMENT.unpack(fields)
    return kind == SASS and not flags & (_LZ4 | _ZSTD)


def _is_damaged(code: bytes) -> bool:
    """Return True if machine code, as far as it is read, isn't ELF or has no names of sections."""
    start = code[: len(_MAGIC)]
    if len(start) == len(_MAGIC) and start != _MAGIC:
        return True
    if len(code) < _ELF.size:
        return False
    table, entry, _, names = _ELF.unpack_from(code)
    place = table + entry * names
    if not table or place + _SECTION.size > len(code):
        return False  # it goes on behind the window
    kind, offset, size = _SECTION.unpack_from(code, place)
    text = code[offset : offset + size]
    return kind != _STRINGS or (len(text) == size and not text.strip(b"\0"))


def _parse_element(fields: bytes) -> tuple[ElementKind, int, int]:
    """Return an element's kind, the size of its header, and that of its code."""
    kind, _, header, size, minor, major, arch, flags = _ELEMENT.unpack(fields)
    version = (major, minor) if kind == PTX else (0, 0)
    name = f"{arch}{arch_suffix(flags)}"
    is_debug = bool(flags & _DEBUG)
    return ElementKind(kind, name, version, bool(flags & _ZSTD), is_debug), header, size


def hop_fatbins(stream: IO[bytes], section: Section) -> tuple[Fatbin, ...]:
    """Return the fat binaries of a section for device code; only their headers are read.

    Raises:
        FatbinFormatError: it holds something else.
    """
    fatbins: list[Fatbin] = []
    end = section.offset + section.size
    offset = _behind_zeros(stream, section.offset, end)
    while offset < end:
        stream.seek(offset)
        header = stream.read(_CONTAINER.size)
        if not header.startswith(_START) or len(header) < _CONTAINER.size:
            raise FatbinFormatError(
                f"no fat binary at byte {offset - section.offset} of {section.name}"
            )
        begin = offset + _CONTAINER.size
        behind = begin + _CONTAINER.unpack(header)[0]
        fatbins.append(Fatbin(offset, behind, _hop_elements(stream, begin, min(behind, end))))
        if len(fatbins) > limits.FATBINS:
            raise FatbinFormatError(
                f"{section.name} contains more than {limits.FATBINS} fat binaries"
            )
        offset = _behind_zeros(stream, behind, end)
    return tuple(fatbins)


def _behind_zeros(stream: IO[bytes], offset: int, end: int) -> int:
    """Return where the next byte is that isn't zero; raise FatbinFormatError for too many zeros."""
    place = offset
    stream.seek(place)
    while piece := stream.read(min(_CHUNK, max(0, end - place))):
        if used := _NOT_ZERO.search(piece):
            return place + used.start()
        place += len(piece)
        if place - offset > limits.SECTION_PADDING:
            raise FatbinFormatError("the section has too many zeros")
    return end


def _hop_elements(stream: IO[bytes], offset: int, end: int) -> frozenset[ElementKind]:
    elements = set()
    for place in _places(stream, offset, end):
        elements.add(place.element)
        if len(elements) > limits.ELEMENTS:
            raise FatbinFormatError("a fat binary claims more kinds of code than exist")
    return frozenset(elements)


def element_places(stream: IO[bytes], fatbin: Fatbin) -> Iterator[ElementPlace]:
    """Yield the place of each element of a fat binary; raises FatbinFormatError."""
    stream.seek(fatbin.offset)
    (size,) = _CONTAINER.unpack(stream.read(_CONTAINER.size))
    begin = fatbin.offset + _CONTAINER.size
    return _places(stream, begin, begin + size)


def _places(stream: IO[bytes], offset: int, end: int) -> Iterator[ElementPlace]:
    while offset < end:
        stream.seek(offset)
        fields = stream.read(_ELEMENT.size)
        if len(fields) < _ELEMENT.size:
            raise FatbinFormatError("the file ends within a fat binary")
        element, header, size = _parse_element(fields)
        if header < _ELEMENT.size:
            raise FatbinFormatError("an element of a fat binary has no valid header")
        yield ElementPlace(offset, header + size, element)
        offset += header + size


def write_fatbin(stream: IO[bytes], fatbin: Fatbin, elements: Iterable[ElementPlace]) -> None:
    """Reduce a fat binary to some of its elements, in place: zeros follow them up to its old end.

    What is left has the form that nvcc's fatbinary gives to these elements alone.
    """
    stream.seek(fatbin.offset)
    (size,) = _CONTAINER.unpack(stream.read(_CONTAINER.size))
    written = 0
    for place in elements:  # in the file's order, so nothing is overwritten before it was read
        stream.seek(place.offset)
        content = stream.read(place.size)
        stream.seek(fatbin.offset + _CONTAINER.size + written)
        written += stream.write(content)
    stream.seek(fatbin.offset + _CONTAINER.size + written)
    stream.write(bytes(size - written))
    stream.seek(fatbin.offset)
    stream.write(_START + written.to_bytes(8, "little"))


def code_of(fatbins: Iterable[Fatbin]) -> DeviceCode:
    """Return the archs of the code in some fat binaries.

    A link by nvcc adds an empty module for each arch of the link command; it counts like any other.
    """
    archs: dict[int, set[str]] = {kind: set() for kind in (SASS, PTX, _LTO, _TILE)}
    elements = {element for fatbin in fatbins for element in fatbin.elements}
    for element in elements:
        archs.get(element.kind, set()).add(element.arch)
    sass, ptx, lto, tile = map(sort_archs, archs.values())
    return DeviceCode(
        sass=sass,
        ptx=ptx,
        lto=lto,
        tile=tile,
        ptx_version=max((element.version for element in elements), default=(0, 0)),
        is_zstd=any(element.is_zstd and element.kind == SASS for element in elements),
        is_debug=any(element.is_debug and element.kind == SASS for element in elements),
    )


def kinds_for_gpu(kinds: Iterable[ElementKind], gpu: str) -> Iterator[ElementKind]:
    """Yield the code that a GPU may load: the nearest machine code, or else the newest PTX."""
    nearest = archs_for([gpu], [kind.arch for kind in kinds if kind.kind == SASS])
    if nearest:
        usable = {kind: DeviceCode(sass=(kind.arch,)) for kind in kinds if kind.kind == SASS}
    else:
        usable = {kind: DeviceCode(ptx=(kind.arch,)) for kind in kinds if kind.kind == PTX}
    fitting = [kind for kind, code in usable.items() if runs_on(code, gpu)]
    numbers = {kind: int(kind.arch.rstrip("af")) for kind in fitting}
    newest = max(numbers.values(), default=0)
    yield from (kind for kind in fitting if numbers[kind] == newest)


def fatbins_of(section: Section, fatbins: Sequence[Fatbin]) -> Sequence[Fatbin]:
    """Return the fat binaries in a section; raises FatbinFormatError."""
    end = section.offset + section.size
    first = bisect_left(fatbins, section.offset, key=_OFFSET)
    members = fatbins[first : bisect_left(fatbins, end, key=_OFFSET)]
    if section.name in (LOADED_SECTION, RELOCATABLE_SECTION):
        offset = section.offset
        for fatbin in members:
            if fatbin.offset != offset:
                break
            offset = fatbin.padded_end
        if offset < end:
            raise FatbinFormatError(
                f"no fat binary at byte {offset - section.offset} of {section.name}"
            )
    return members


def code_of_ptx(text: bytes) -> DeviceCode:
    """Return the arch of a file of PTX, from its beginning (PTX ISA, "PTX Module Directives")."""
    versions = ((int(major), int(minor)) for major, minor in _PTX_VERSION.findall(text))
    return DeviceCode(
        ptx=sort_archs(target.decode() for target in _PTX_TARGET.findall(text)),
        ptx_version=max(versions, default=(0, 0)),
    )


def code_of_cubin(abi: int, flags: int) -> DeviceCode:
    """Return the arch of a bare cubin, without its suffix: the header of `sm_90a` has 90.

    Read off cubins of nvcc 11.8 to 13.0. The ABI version is 7 for CUDA 11 and 12, 8 for CUDA 13.
    """
    arch = flags >> 8 if abi >= _ABI_OF_CUDA_13 else flags
    return DeviceCode(sass=(str(arch & 0xFF),))


_ABI_OF_CUDA_13 = 8
