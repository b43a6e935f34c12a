"""Which bytes of a library differ only because something else moved.

Code and tables of a library hold addresses, most of them as the distance from where they stand. A
text that is longer moves what comes behind it, and bytes differ everywhere. Here that is shown, not
assumed: each number that differs has to lead to the same thing in both files.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.verify.compare.bytes import texts_in
from cuwheel.verify.compare.text_causes import stable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.binaries.elf_image import ElfImage, SectionHeader


_SYMBOL_TABLES = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
_FUNCTION = 2  # STT_FUNC
_ALLOCATED = 2  # SHF_ALLOC
_TEXTS = ".rodata"
_TEXTS_MAX = 1 << 26  # bytes of texts that are compared
_DISTANCE = 4  # bytes of a distance: how code for x86-64 says where something is
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
        """Whether the loader maps it."""
        return bool(self.header.flags & _ALLOCATED)

    def holds(self, offset: int) -> bool:
        """Whether an offset of the file is in it."""
        start = self.header.offset
        return self.header.is_in_file and start <= offset < start + self.header.size

    def part(self, start: int, size: int) -> bytes:
        """Bytes of its content."""
        return self.image.read(self.header.offset + start, size)

    def read(self) -> bytes:
        """Its content."""
        return self.part(0, self.header.size)


def sections_of(image: ElfImage) -> dict[str, ElfSection]:
    """Sections by name; of several with one name, as in object files, each has a number."""
    names, found = image.section_names(), dict[str, ElfSection]()
    for header in image.sections[1:]:
        name = names.get(header.name, "")
        key, number = name, 1
        while key in found:
            number += 1
            key = f"{name} ({number})"
        found[key] = ElfSection(image, name, header)
    return found


def functions_at(a: ElfSection, b: ElfSection) -> list[str]:
    """Functions whose code differs between two sections, as far as symbols show; mangled names."""
    functions_a, functions_b = _functions(a), _functions(b)
    return [
        name
        for name, (start, size) in functions_a.items()
        if name in functions_b and a.part(start, size) != b.part(*functions_b[name])
    ]


def _functions(section: ElfSection) -> dict[str, tuple[int, int]]:
    """Place in the section, and size, of each function that a symbol names."""
    image, header = section.image, section.header
    if not image.is_wide:
        return {}
    found = {}
    for table in image.sections:
        if table.kind not in _SYMBOL_TABLES:
            continue
        names = image.linked(table).offset
        for name, info, _, _, value, size in image.records("IBBHQQ", table.offset, table.size):
            start = value - header.address
            if info & 0xF == _FUNCTION and size and 0 <= start <= header.size - size:
                found[image.name(names + name)] = (start, size)
    return found


class Span(NamedTuple):
    """A section's addresses in both files, and by how many bytes things in it can have moved."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int
    by: frozenset[int]

    def has(self, a: int, b: int) -> bool:
        """Whether two addresses can be those of one thing in it."""
        is_inside = self.start_a <= a <= self.end_a and self.start_b <= b <= self.end_b
        return is_inside and b - a in self.by


class Moves(NamedTuple):
    """Where everything is in two files.

    Attributes:
        spans: sections that both have.
        slots_a: from `slots_of`, of the first, without what paths put into names.
        slots_b: of the second.
    """

    spans: tuple[Span, ...]
    slots_a: dict[int, str]
    slots_b: dict[int, str]

    @property
    def is_any(self) -> bool:
        """Whether any section, or text, has moved."""
        return any(span.by != {0} for span in self.spans)

    def lead_to_same(self, a: int, b: int) -> bool:
        """Whether two addresses, one of each file, are those of the same thing."""
        name = self.slots_a.get(a)
        if name is not None or b in self.slots_b:
            return name == self.slots_b.get(b)
        return any(span.has(a, b) for span in self.spans)


def moves_between(a: dict[str, ElfSection], b: dict[str, ElfSection]) -> Moves:
    """Compare where things are in two files."""
    spans = []
    for name, one in a.items():
        if name in b and one.is_loaded:
            start_a, start_b = one.header.address, b[name].header.address
            end_a, end_b = start_a + one.header.size, start_b + b[name].header.size
            by = {start_b - start_a, end_b - end_a}
            if name == _TEXTS:
                by.update(_text_moves(one, b[name]))
            spans.append(Span(start_a, end_a, start_b, end_b, frozenset(by)))
    return Moves(tuple(spans), _stable_slots(a), _stable_slots(b))


def _stable_slots(sections: dict[str, ElfSection]) -> dict[int, str]:
    images = {section.image for section in sections.values()}
    slots = [item for image in images for item in slots_of(image).items()]
    return {address: stable_name(name) for address, name in slots}


def follows(a: ElfSection, b: ElfSection, moves: Moves) -> bool:
    """Whether everything in which two sections differ follows from what moved.

    Each number that differs has to be the address of one and the same thing, or the distance to it:
    in both files it leads into the same section, to what moved just so, or to the slot of the same
    symbol.
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
    """Whether two sections of equally long code call other functions through their slots.

    The bytes can be the same all the same: two symbols may have changed their slots.
    """
    if moves.slots_a == moves.slots_b or a.header.size != b.header.size:
        return False
    contents = a.read(), b.read()
    for found in _CALL.finditer(contents[0]):
        offset, end = found.span(1)
        one, other = (int.from_bytes(data[offset:end], "little", signed=True) for data in contents)
        name = moves.slots_a.get(a.header.address + end + one)
        if name and name != moves.slots_b.get(b.header.address + end + other):
            return True
    return False


def _end_of_number(
    a: bytes, b: bytes, offset: int, bases: tuple[int, int], moves: Moves
) -> int | None:
    """Where the number ends that an offset is in, if it leads to the same thing in both files."""
    for start in range(max(0, offset - _DISTANCE + 1), offset + 1):
        end = start + _DISTANCE
        one, other = (int.from_bytes(data[start:end], "little", signed=True) for data in (a, b))
        # A distance counts from the end of its instruction, and a number may stand behind it.
        starts = [(bases[0] + end + more, bases[1] + end + more) for more in _NUMBERS]
        if end <= len(a) and any(moves.lead_to_same(x + one, y + other) for x, y in starts):
            return end
    start = offset // _ADDRESS * _ADDRESS
    end = start + _ADDRESS
    one, other = (int.from_bytes(data[start:end], "little") for data in (a, b))
    return end if end <= len(a) and moves.lead_to_same(one, other) else None


def _first_difference(a: bytes, b: bytes, start: int) -> int | None:
    """Where two equally long contents first differ from an offset on."""
    step = 4096
    for begin in range(start, len(a), step):
        if a[begin : begin + step] != b[begin : begin + step]:
            pairs = zip(a[begin : begin + step], b[begin : begin + step], strict=True)
            return begin + next(at for at, (one, other) in enumerate(pairs) if one != other)
    return None


def _text_moves(a: ElfSection, b: ElfSection) -> Iterable[int]:
    if max(a.header.size, b.header.size) > _TEXTS_MAX:
        return ()
    offsets_a, offsets_b = (
        {found[1]: found.start() + one.header.address for found in texts_in(one.read())}
        for one in (a, b)
    )
    return {offsets_b[text] - offsets_a[text] for text in offsets_a.keys() & offsets_b.keys()}


_RELOCATIONS = 4  # SHT_RELA


_GOT_KINDS = (6, 7)  # R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT


_SYMBOL = 24  # bytes of an entry of a table of symbols


_TABLES = (".plt", ".plt.sec", ".plt.got")


_JUMP = re.compile(rb"\xff\x25(.{4})", re.DOTALL)  # jmp *slot(%rip)


_JUMP_SIZE = 6  # bytes


_ENTRIES = (16, 8)  # bytes of an entry of the procedure linkage table


def slots_of(image: ElfImage) -> dict[int, str]:
    """Addresses of slots and of linkage code, each with the symbol that it leads to."""
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


_X86_64 = 62  # EM_X86_64
