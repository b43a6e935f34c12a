"""Through which addresses a library for x86-64 reaches functions and data of others, by name.

System V ABI, AMD64 supplement: "Global Offset Table", "Procedure Linkage Table". Linkers sort both
after the names, so that another name moves calls that have nothing to do with it.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.elfimage import ElfImage, SectionHeader

_X86_64 = 62  # EM_X86_64
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
