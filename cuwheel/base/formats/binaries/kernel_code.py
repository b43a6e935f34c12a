"""Parsers of unpacked device code, cubins and PTX: functions, data, notes, debug information.

A cubin is an ELF file whose sections are named after the kernel that they belong to. Their contents
were read off cubins of nvcc 13.0.88 (sm_75 to sm_120).
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cuwheel.base.formats.binaries.elf_image import (
    ElfFormatError,
    ElfImage,
    read_notes,
)

INSTRUCTION = 16  # bytes, since sm_70
_CODE = ".text."
_TOOL_NOTE = ".note.nv.tkinfo"
# Six numbers, of which the last four are offsets of texts behind them: the tool, its release, its
# build, its options.
_TOOL = struct.Struct("<6I")
# Kinds of sections without content: SHT_NOBITS, and NVIDIA's for shared and for local memory.
_NO_BITS = (8, 0x7000000A, 0x7000000B)

# The low 9 bits of an instruction are its operation; below 0x100 it computes, from there on it
# loads, stores, jumps. The next 3 bits are the form of the operands; in the two forms below one is
# a number, in bits 32 to 63. Checked with nvdisasm 13.5 on 137,000 instructions of bitsandbytes
# 0.49.1 (sm_75 to sm_120): when these bits change, the text changes in that number only.
_OPERATION = 0x1FF
_FIRST_OTHER = 0x100
_FORM = 9  # bit
_FORMS_WITH_NUMBER = (2, 4)

_FUNCTION = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)?\.(?:entry|func)\b")
_FUNCTION_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_DEBUG_LINE = re.compile(r"^\s*\.(?:file|loc)\b")
_DEBUG_SECTION = re.compile(r"^\s*\.section\s+\.debug")


@dataclass(frozen=True, kw_only=True)
class ToolNote:
    """Note of the tool that made a cubin: ptxas, or nvlink."""

    tool: str
    release: str
    build: str
    options: str


class CubinPart(NamedTuple):
    """Section of a cubin: its name, its content, and its kernel, if any."""

    name: str
    content: bytes
    kernel: str


@dataclass(frozen=True, kw_only=True)
class Cubin:
    """Contents of a cubin."""

    parts: tuple[CubinPart, ...]
    kernels: tuple[str, ...]
    notes: tuple[ToolNote, ...]
    symbols: tuple[str, ...]


def read_cubin(cubin: bytes) -> Cubin:
    """Parse a cubin; raises ElfFormatError."""
    image = ElfImage(io.BytesIO(cubin))
    sizes = (section.size for section in image.sections if section.kind not in _NO_BITS)
    if sum(sizes) > 2 * len(cubin):
        raise ElfFormatError("its sections overlap")  # each is copied
    names = image.section_names()
    named = [(names.get(section.name, ""), section) for section in image.sections[1:]]
    kernels = {name.removeprefix(_CODE) for name, _ in named if name.startswith(_CODE)}
    parts = []
    for name, section in named:
        owner = name.rpartition(".")[2]  # `.nv.info.<kernel>`; a kernel's name has no dot
        if section.kind in _NO_BITS:  # it only reserves memory
            content = f"{section.size} bytes".encode()
        else:
            content = image.read(section.offset, section.size)
        parts.append(CubinPart(name, content, owner if owner in kernels else ""))
    texts = {part.name: part.content for part in parts}
    symbols = texts.get(".strtab", b"").decode("utf-8", "replace").split("\0")
    return Cubin(
        parts=tuple(parts),
        kernels=tuple(sorted(kernels)),
        notes=_tool_notes(texts.get(_TOOL_NOTE, b"")),
        symbols=tuple(sorted(text for text in symbols if text and not text.startswith("."))),
    )


def _tool_notes(section: bytes) -> tuple[ToolNote, ...]:
    notes = []
    for _, _, content in read_notes(section):
        if len(content) > _TOOL.size:
            texts = content[_TOOL.size :]
            tool, release, build, options = (
                texts[begin:].partition(b"\0")[0].decode("utf-8", "replace").strip()
                for begin in _TOOL.unpack_from(content)[2:]
            )
            notes.append(ToolNote(tool=tool, release=release, build=build, options=options))
    return tuple(notes)


class CodeChange(NamedTuple):
    """Difference in the machine code of a function, as counts of instructions.

    Attributes:
        before: of the first.
        after: of the second.
        numbers: of the changed ones, those that differ only in a number that they hold.
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
    changed = [(old, new) for old, new in pairs if old != new]
    return CodeChange(
        before, after, len(changed), sum(_differs_in_number(*pair) for pair in changed)
    )


def _differs_in_number(a: bytes, b: bytes) -> bool:
    if (a[:4], a[8:]) != (b[:4], b[8:]):
        return False
    word = int.from_bytes(a[:4], "little")
    return word & _OPERATION < _FIRST_OTHER and word >> _FORM & 7 in _FORMS_WITH_NUMBER


@dataclass(frozen=True, kw_only=True)
class Ptx:
    """Lines of PTX: of each function, of the rest, and debug information."""

    functions: dict[str, tuple[str, ...]]
    rest: tuple[str, ...]
    debug: tuple[str, ...]


def read_ptx(content: bytes) -> Ptx:
    """Split PTX by lines; only the beginnings and ends of functions are parsed."""
    functions: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    debug: list[str] = []
    lines = iter(content.decode("utf-8", "replace").splitlines())
    for line in lines:
        if _DEBUG_SECTION.match(line):
            debug += [line, *_block(lines)]
        elif _FUNCTION.match(line):
            body = [line] if line.rstrip().endswith(";") else [line, *_block(lines)]
            debug += filter(_DEBUG_LINE.match, body)
            code = tuple(text for text in body if not _DEBUG_LINE.match(text))
            name = _FUNCTION_NAME.search(" ".join(code))
            functions[name[1] if name else line] = code
        elif _DEBUG_LINE.match(line):
            debug.append(line)
        elif line.strip():
            rest.append(line)
    return Ptx(functions=functions, rest=tuple(rest), debug=tuple(debug))


def _block(lines: Iterator[str]) -> list[str]:
    """Return lines up to the brace that closes the first one, or a declaration's semicolon."""
    block, depth, has_begun = [], 0, False
    for line in lines:
        block.append(line)
        depth += line.count("{") - line.count("}")
        has_begun = has_begun or "{" in line
        if depth <= 0 and (has_begun or line.rstrip().endswith(";")):
            break
    return block
