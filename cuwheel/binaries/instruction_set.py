"""Which CPU an ELF file needs: the property that compilers and linkers leave in its notes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.binaries.elf_image import ElfImage

# "Linux Extensions to gABI", chapter "Program Property"; x86-64 psABI, chapter "Program Property".
_NOTE = 4  # PT_NOTE
_GNU, _PROPERTIES = b"GNU\0", 5  # NT_GNU_PROPERTY_TYPE_0
_NEEDED = 0xC0008002  # GNU_PROPERTY_X86_ISA_1_NEEDED
_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))
_X86_64 = 62
_HEADER = struct.Struct("<III")
_PROPERTY = struct.Struct("<II")
_ALIGN = 8  # bytes, in files of 64 bits
_NOTES_MAX = 1 << 20  # bytes


def instruction_set(image: ElfImage) -> str:
    """The level of x86-64 that a file says it needs, `x86-64-v3`; empty where it says none.

    Raises:
        ElfFormatError: it is damaged.
    """
    if image.machine != _X86_64 or not image.is_wide:
        return ""
    needed = 0
    for segment in image.segments:
        if segment.kind == _NOTE:
            notes = image.read(segment.offset, min(segment.size, _NOTES_MAX))
            for properties in _property_notes(notes):
                needed |= _needed_bits(properties)
    return next((name for bit, name in _LEVELS if needed & bit), "")


def _property_notes(notes: bytes) -> Iterator[bytes]:
    """The contents of the notes that hold properties; those are aligned to eight bytes."""
    offset = 0
    while offset + _HEADER.size <= len(notes):
        name_size, size, kind = _HEADER.unpack_from(notes, offset)
        name_end = offset + _HEADER.size + name_size
        is_property = kind == _PROPERTIES and notes[offset + _HEADER.size : name_end] == _GNU
        align = _ALIGN if is_property else 4
        start = -(-name_end // 4) * 4
        if is_property:
            yield notes[start : start + size]
        offset = -(-(start + size) // align) * align


def _needed_bits(properties: bytes) -> int:
    offset = 0
    while offset + _PROPERTY.size <= len(properties):
        kind, size = _PROPERTY.unpack_from(properties, offset)
        offset += _PROPERTY.size
        if kind == _NEEDED:
            return int.from_bytes(properties[offset : offset + min(size, 4)], "little")
        offset += -(-size // _ALIGN) * _ALIGN
    return 0
