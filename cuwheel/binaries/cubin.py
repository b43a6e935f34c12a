"""A cubin and a PTX text taken apart: functions, data, notes, debug information.

A cubin is an ELF file whose sections are named after the kernel that they belong to. What the
sections hold was read off cubins of nvcc 13.0.88 (sm_75 to sm_120); PTX is documented (PTX ISA).
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.binaries.elf_image import ElfFormatError, ElfImage

if TYPE_CHECKING:
    from cuwheel.binaries.elf_image import SectionHeader


INSTRUCTION = 16  # bytes, since sm_70
_CODE = ".text."
_TOOL_NOTE = ".note.nv.tkinfo"
# A note: size of the owner's name, size of what follows it, kind (System V ABI, "Note Section").
_NOTE = struct.Struct("<III")
# Six numbers, of which the last four say where texts begin behind them: the tool, its release, its
# build, its options.
_TOOL = struct.Struct("<6I")
# Kinds of sections without content: SHT_NOBITS, and NVIDIA's for shared and for local memory.
_NO_BITS = (8, 0x7000000A, 0x7000000B)

# The low 9 bits of an instruction are its operation; below 0x100 it computes, from there on it
# loads, stores, jumps. The next 3 bits say what the operands are; for these two one of them is a
# number, in bits 32 to 63. Checked with nvdisasm 13.5 on 137,000 instructions of bitsandbytes
# 0.49.1 (sm_75 to sm_120): when these bits change, the text changes in that number only.
_OPERATION = 0x1FF
_FIRST_OTHER = 0x100
_FORM = 9  # bit
_FORMS_WITH_NUMBER = (2, 4)


@dataclass(frozen=True, kw_only=True)
class ToolNote:
    """What the tool that made a cubin says of itself: ptxas, or nvlink."""

    tool: str
    release: str
    build: str
    options: str


class CubinPart(NamedTuple):
    """A section of a cubin: its name, its content, and the kernel it belongs to or nothing."""

    name: str
    content: bytes
    kernel: str


@dataclass(frozen=True, kw_only=True)
class Cubin:
    """A cubin.

    Attributes:
        parts: its sections.
        kernels: names of the functions in it.
        notes: who made it.
        symbols: names of all symbols but sections and labels.
    """

    parts: tuple[CubinPart, ...]
    kernels: tuple[str, ...]
    notes: tuple[ToolNote, ...]
    symbols: tuple[str, ...]


def read_cubin(content: bytes) -> Cubin:
    """Take a cubin apart.

    Raises:
        ElfFormatError: it is damaged.
    """
    image = ElfImage(io.BytesIO(content))
    if sum(one.size for one in image.sections if one.kind not in _NO_BITS) > 2 * len(content):
        raise ElfFormatError("its sections overlap")  # each is copied
    names = image.section_names()
    named = [(names.get(section.name, ""), section) for section in image.sections[1:]]
    kernels = {name.removeprefix(_CODE) for name, _ in named if name.startswith(_CODE)}
    parts = tuple(
        CubinPart(name, _content(image, section), _kernel_of(name, kernels))
        for name, section in named
    )
    texts = {part.name: part.content for part in parts}
    symbols = texts.get(".strtab", b"").decode("utf-8", "replace").split("\0")
    return Cubin(
        parts=parts,
        kernels=tuple(sorted(kernels)),
        notes=_tool_notes(texts.get(_TOOL_NOTE, b"")),
        symbols=tuple(sorted(text for text in symbols if text and not text.startswith("."))),
    )


def _content(image: ElfImage, section: SectionHeader) -> bytes:
    """What a section holds; its size, as text, where it only reserves memory."""
    if section.kind in _NO_BITS:
        return f"{section.size} bytes".encode()
    return image.read(section.offset, section.size)


def _kernel_of(section: str, kernels: set[str]) -> str:
    """`.nv.info.<kernel>`, `.rela.text.<kernel>`; no name of a kernel holds a dot."""
    name = section.rpartition(".")[2]
    return name if name in kernels else ""


def _tool_notes(section: bytes) -> tuple[ToolNote, ...]:
    notes, offset = [], 0
    while offset + _NOTE.size <= len(section):
        name_size, size, _ = _NOTE.unpack_from(section, offset)
        start = offset + _NOTE.size + _rounded(name_size)
        offset = start + _rounded(size)
        content = section[start : start + size]
        if len(content) > _TOOL.size:
            texts = content[_TOOL.size :]
            found = [
                texts[begin:].partition(b"\0")[0].decode("utf-8", "replace").strip()
                for begin in _TOOL.unpack_from(content)[2:]
            ]
            notes.append(
                ToolNote(tool=found[0], release=found[1], build=found[2], options=found[3])
            )
    return tuple(notes)


def _rounded(size: int) -> int:
    return (size + 3) // 4 * 4


class CodeChange(NamedTuple):
    """How the machine code of a function changed.

    Attributes:
        before: instructions of the first.
        after: of the second.
        changed: how many differ, of equally long ones.
        numbers: how many of these differ in nothing but a number that they hold.
    """

    before: int
    after: int
    changed: int
    numbers: int


def change_of_code(a: bytes, b: bytes) -> CodeChange:
    """Compare the machine code of two functions for a GPU of sm_70 or newer."""
    before, after = len(a) // INSTRUCTION, len(b) // INSTRUCTION
    if before != after:
        return CodeChange(before, after, 0, 0)
    offsets = range(0, len(a), INSTRUCTION)
    pairs = [(a[at : at + INSTRUCTION], b[at : at + INSTRUCTION]) for at in offsets]
    changed = [(one, other) for one, other in pairs if one != other]
    return CodeChange(
        before, after, len(changed), sum(_differs_in_number(*pair) for pair in changed)
    )


def _differs_in_number(a: bytes, b: bytes) -> bool:
    if (a[:4], a[8:]) != (b[:4], b[8:]):
        return False
    word = int.from_bytes(a[:4], "little")
    return word & _OPERATION < _FIRST_OTHER and word >> _FORM & 7 in _FORMS_WITH_NUMBER
