"""Proof that bytes of a library differ only because something else moved.

Code and tables of a library hold addresses, most of them as distances. A longer text moves what
follows it, and bytes differ everywhere: each differing number has to lead to the same thing in both
files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cuwheel.base.formats.binaries.elf_image import ElfImage, SectionHeader
from cuwheel.publish.rebuild.compare.texts import stable_name, texts_in

_X86_64 = 62  # EM_X86_64
_RELOCATIONS = 4  # SHT_RELA
_GOT_KINDS = (6, 7)  # R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
_SYMBOL = 24  # bytes of an entry of a table of symbols
_TABLES = (".plt", ".plt.sec", ".plt.got")
_JUMP = re.compile(rb"\xff\x25(.{4})", re.DOTALL)  # jmp *slot(%rip)
_JUMP_SIZE = 6  # bytes
_ENTRIES = (16, 8)  # bytes of an entry of the procedure linkage table
_ALLOCATED = 2  # SHF_ALLOC
_TEXTS = ".rodata"
_TEXTS_MAX = 1 << 26  # bytes of texts that are compared
_DISTANCE = 4  # bytes of a distance, as code for x86-64 refers to other places
_ADDRESS = 8  # bytes of an address
_CALL = re.compile(rb"(?=(?:\xe8|\xe9|\xff\x15|\xff\x25)(.{4}))", re.DOTALL)  # call, jmp
_NUMBERS = (0, 1, 2, 4)  # bytes of a number that an instruction for x86-64 ends with


class ElfSection(NamedTuple):
    """A section of an open ELF file."""

    image: ElfImage
    name: str
    header: SectionHeader

    @property
    def is_loaded(self) -> bool:
        """True if the loader maps it."""
        return bool(self.header.flags & _ALLOCATED)

    def holds(self, offset: int) -> bool:
        """Return True if an offset of the file is in it."""
        start = self.header.offset
        return self.header.is_in_file and start <= offset < start + self.header.size

    def part(self, start: int, size: int) -> bytes:
        """Read bytes of its content."""
        return self.image.read(self.header.offset + start, size)

    def read(self) -> bytes:
        """Read its content."""
        return self.part(0, self.header.size)


def sections_of(image: ElfImage) -> dict[str, ElfSection]:
    """Return sections by name; several with one name, as in object files, are numbered."""
    names, sections = image.section_names(), dict[str, ElfSection]()
    for header in image.sections[1:]:
        name = names.get(header.name, "")
        key, number = name, 1
        while key in sections:
            number += 1
            key = f"{name} ({number})"
        sections[key] = ElfSection(image, name, header)
    return sections


def section_at(sections: dict[str, ElfSection], offset: int) -> str:
    """Return the name of the section that has an offset of the file; empty: none has."""
    return next((name for name, section in sections.items() if section.holds(offset)), "")


class MovedSpan(NamedTuple):
    """A section's addresses in both files, and by how many bytes things in it can have moved."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int
    by: frozenset[int]

    def has(self, a: int, b: int) -> bool:
        """Return True if two addresses can be those of one thing in it."""
        is_inside = self.start_a <= a <= self.end_a and self.start_b <= b <= self.end_b
        return is_inside and b - a in self.by


class Moves(NamedTuple):
    """Locations of everything in two files.

    Attributes:
        slots_a: from `slots_of`, without what paths put into names.
    """

    spans: tuple[MovedSpan, ...]
    slots_a: dict[int, str]
    slots_b: dict[int, str]

    @property
    def is_any(self) -> bool:
        """True if any section, or text, has moved."""
        return any(span.by != {0} for span in self.spans)

    def lead_to_same(self, a: int, b: int) -> bool:
        """Return True if two addresses, one of each file, are those of the same thing."""
        name = self.slots_a.get(a)
        if name is not None or b in self.slots_b:
            return name == self.slots_b.get(b)
        return any(span.has(a, b) for span in self.spans)


def moves_between(a: dict[str, ElfSection], b: dict[str, ElfSection]) -> Moves:
    """Compare the locations of sections, texts and slots in two files."""
    spans = []
    for name, section in a.items():
        if name in b and section.is_loaded:
            start_a, start_b = section.header.address, b[name].header.address
            end_a, end_b = start_a + section.header.size, start_b + b[name].header.size
            by = {start_b - start_a, end_b - end_a}
            if name == _TEXTS:
                by.update(_text_moves(section, b[name]))
            spans.append(MovedSpan(start_a, end_a, start_b, end_b, frozenset(by)))
    return Moves(tuple(spans), _stable_slots(a), _stable_slots(b))


def _stable_slots(sections: dict[str, ElfSection]) -> dict[int, str]:
    images = {section.image for section in sections.values()}
    slots = [item for image in images for item in slots_of(image).items()]
    return {address: stable_name(name) for address, name in slots}


def follows(a: ElfSection, b: ElfSection, moves: Moves) -> bool:
    """Return True if everything in which two sections differ follows from what moved.

    Each differing number has to be an address of, or a distance to, the same thing: into the same
    section, shifted like that section or its texts, or to the slot of the same symbol.
    """
    if a.header.size != b.header.size:
        return False
    contents = a.read(), b.read()
    offset = _first_difference(*contents, 0)
    while offset is not None:
        end = _end_of_number(*contents, offset, (a.header.address, b.header.address), moves)
        if end is None:
            return False
        offset = _first_difference(*contents, end)
    return True


def calls_others(a: ElfSection, b: ElfSection, moves: Moves) -> bool:
    """Return True if two sections of equally long code call other functions through their slots.

    The bytes can still be equal: two symbols may have changed their slots.
    """
    if moves.slots_a == moves.slots_b or a.header.size != b.header.size:
        return False
    contents = a.read(), b.read()
    for call in _CALL.finditer(contents[0]):
        offset, end = call.span(1)
        distance_a, distance_b = (
            int.from_bytes(data[offset:end], "little", signed=True) for data in contents
        )
        name = moves.slots_a.get(a.header.address + end + distance_a)
        if name and name != moves.slots_b.get(b.header.address + end + distance_b):
            return True
    return False


def _end_of_number(
    a: bytes, b: bytes, offset: int, bases: tuple[int, int], moves: Moves
) -> int | None:
    """Return the end of the number at an offset if it leads to the same thing in both files."""
    for start in range(max(0, offset - _DISTANCE + 1), offset + 1):
        end = start + _DISTANCE
        number_a, number_b = (
            int.from_bytes(data[start:end], "little", signed=True) for data in (a, b)
        )
        # A distance counts from the end of its instruction, which a number may follow.
        starts = [(bases[0] + end + more, bases[1] + end + more) for more in _NUMBERS]
        if end <= len(a) and any(moves.lead_to_same(x + number_a, y + number_b) for x, y in starts):
            return end
    start = offset // _ADDRESS * _ADDRESS
    end = start + _ADDRESS
    number_a, number_b = (int.from_bytes(data[start:end], "little") for data in (a, b))
    return end if end <= len(a) and moves.lead_to_same(number_a, number_b) else None


def _first_difference(a: bytes, b: bytes, start: int) -> int | None:
    """Return the first offset from `start` on at which equally long contents differ."""
    step = 4096
    for begin in range(start, len(a), step):
        if a[begin : begin + step] != b[begin : begin + step]:
            pairs = zip(a[begin : begin + step], b[begin : begin + step], strict=True)
            return begin + next(at for at, (byte_a, byte_b) in enumerate(pairs) if byte_a != byte_b)
    return None


def _text_moves(a: ElfSection, b: ElfSection) -> Iterable[int]:
    if max(a.header.size, b.header.size) > _TEXTS_MAX:
        return ()
    offsets_a, offsets_b = (
        {text[1]: text.start() + section.header.address for text in texts_in(section.read())}
        for section in (a, b)
    )
    return {offsets_b[text] - offsets_a[text] for text in offsets_a.keys() & offsets_b.keys()}


def slots_of(image: ElfImage) -> dict[int, str]:
    """Return addresses of slots and of linkage code, each with the symbol that it leads to."""
    if image.machine != _X86_64 or not image.is_wide:
        return {}
    slots = dict(_slots(image))
    names = image.section_names()
    for section in image.sections:
        if names.get(section.name) in _TABLES and section.is_in_file:
            slots.update(dict(_linkage(image, section, slots)))
    return slots


def _slots(image: ElfImage) -> Iterator[tuple[int, str]]:
    for table in image.sections:
        if table.kind != _RELOCATIONS or not table.link:
            continue
        symbols = image.linked(table)
        strings = image.linked(symbols).offset
        for address, info, _ in image.records("QQq", table.offset, table.size):
            if info & 0xFFFFFFFF in _GOT_KINDS:
                (name,) = image.unpack("I", symbols.offset + (info >> 32) * _SYMBOL)
                yield address, image.name(strings + name)


def _linkage(
    image: ElfImage, section: SectionHeader, slots: dict[int, str]
) -> Iterator[tuple[int, str]]:
    code = image.read(section.offset, section.size)
    jumps = list(_JUMP.finditer(code))
    entry = _ENTRIES[0] if len(jumps) * _ENTRIES[0] <= section.size else _ENTRIES[1]
    for jump in jumps:
        (distance,) = struct.unpack("<i", jump[1])
        slot = section.address + jump.start() + _JUMP_SIZE + distance
        if slot in slots:
            yield section.address + jump.start() // entry * entry, slots[slot]
