"""Tables of an ELF file: 32 or 64 bits, either byte order, with or without section headers.

Fields: System V ABI (gabi, chapters "Object Files" and "Program Loading and Dynamic Linking"). Only
requested parts are read, and never more than the file holds, so a damaged file costs no more memory
than a valid one.
"""

from __future__ import annotations

import io
import struct
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import IO, NamedTuple

from cuwheel.base import limits

MAGIC = b"\x7fELF"
_IDENT = 16  # bytes before the fields that depend on the class
_LOAD = 1  # PT_LOAD
_DYNAMIC = 2  # PT_DYNAMIC
_NO_BITS = 8  # SHT_NOBITS: it has no bytes in the file
_IN_SECTION = 0xFFFF  # the number is too large for its field, and is in the first section
_CHUNK = 1 << 20  # bytes
# System V ABI, "Dynamic Section".
NEEDED, SONAME, RPATH, RUNPATH = 1, 14, 15, 29
STRINGS, STRINGS_SIZE, SYMBOLS = 5, 10, 6
_DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM

_NOTE = struct.Struct("<III")  # sizes of the owner's name and of the content, kind
_HEADER = ("type", "machine", "version", "entry", "phoff", "shoff", "flags", "ehsize")
_COUNTS = ("phentsize", "phnum", "shentsize", "shnum", "shstrndx")


class ElfFormatError(ValueError):
    """A file begins like an ELF file and can't be read as one."""


class Segment(NamedTuple):
    """Program header: a part that the loader maps; `size` in the file, `memory` when mapped."""

    kind: int
    flags: int
    offset: int
    address: int
    size: int
    memory: int
    alignment: int


class SectionHeader(NamedTuple):
    """Section header, in the order of its fields."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int

    @property
    def is_in_file(self) -> bool:
        """True if it has bytes in the file."""
        return self.kind not in (0, _NO_BITS)


class ElfImage:
    """Open ELF file.

    Raises:
        ElfFormatError: it isn't ELF, or its headers are damaged.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._size = stream.seek(0, io.SEEK_END)
        ident = self.read(0, _IDENT)
        if not ident.startswith(MAGIC) or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise ElfFormatError("it does not start like an ELF file")
        self.is_wide = ident[4] == 2  # noqa: PLR2004 - ELFCLASS64
        self.system, self.abi = ident[7], ident[8]  # EI_OSABI, EI_ABIVERSION
        self._order = "<" if ident[5] == 1 else ">"
        word = "Q" if self.is_wide else "I"
        header = struct.Struct(f"{self._order}HHI3{word}I6H")
        fields = header.unpack(self.read(_IDENT, header.size))
        self._fields = dict(zip((*_HEADER, *_COUNTS), fields, strict=True))
        self.kind, self.machine, self.flags = fields[0], fields[1], fields[6]
        self.sections = self._sections()
        self.segments = self._segments()

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes of the file; raises ElfFormatError."""
        if offset + size > self._size:
            raise ElfFormatError(f"it ends before byte {offset + size}")
        self._stream.seek(offset)
        return self._stream.read(size)

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        """Read integers at an offset, in the file's byte order."""
        record = struct.Struct(self._order + form)
        return record.unpack(self.read(offset, record.size))

    def records(self, form: str, offset: int, size: int) -> Iterator[tuple[int, ...]]:
        """Yield consecutive records in `size` bytes; a rest is left out."""
        record = struct.Struct(self._order + form)
        step = _CHUNK // record.size * record.size
        end = offset + size // record.size * record.size
        for start in range(offset, end, step):
            yield from record.iter_unpack(self.read(start, min(step, end - start)))

    def name(self, offset: int) -> str:
        """Read the text at an offset, up to its zero; raises ElfFormatError."""
        if offset >= self._size:
            raise ElfFormatError(f"it ends before byte {offset}")
        text = self.read(offset, min(limits.ELF_NAME, self._size - offset))
        return text.partition(b"\0")[0].decode("utf-8", "replace")

    def offset_of(self, address: int) -> int:
        """Return the offset in the file of an address in memory; raises ElfFormatError."""
        for segment in self.segments:
            past = address - segment.address
            if segment.kind == _LOAD and 0 <= past < segment.size:
                return segment.offset + past
        raise ElfFormatError(f"no segment contains address {address:#x}")

    def linked(self, section: SectionHeader) -> SectionHeader:
        """Return the section that another one refers to: a table's names, or its symbols.

        Raises:
            ElfFormatError: there is no such section.
        """
        if section.link >= len(self.sections):
            raise ElfFormatError(f"it has no section {section.link}")
        return self.sections[section.link]

    @cached_property
    def dynamic(self) -> defaultdict[int, list[int]]:
        """Values of the dynamic entries by tag; from the segment, as the loader reads them."""
        values: defaultdict[int, list[int]] = defaultdict(list)
        for tag, value in self._dynamic_entries():
            values[tag].append(value)
        return values

    @cached_property
    def strings(self) -> int:
        """Offset of the names of dynamic symbols and entries; 0 where there are none."""
        return self.offset_of_tag(STRINGS)

    def first(self, tag: int) -> int:
        """Return the value of the first dynamic entry with a tag; 0 without one."""
        return next(iter(self.dynamic[tag]), 0)

    def offset_of_tag(self, tag: int) -> int:
        """Return the offset in the file of a table that a dynamic entry names; 0 without one."""
        return self.offset_of(self.dynamic[tag][0]) if self.dynamic[tag] else 0

    def texts(self, tag: int) -> tuple[str, ...]:
        """Return the texts of the dynamic entries with a tag."""
        return tuple(self.name(self.strings + offset) for offset in self.dynamic[tag])

    @property
    def soname(self) -> str:
        """`DT_SONAME`; empty where there is none."""
        return "".join(self.texts(SONAME)[:1])

    def search_entries(self, tag: int) -> tuple[str, ...]:
        """Return the folders of `DT_RPATH` or `DT_RUNPATH`.

        An empty one, as in `/lib:`, is the working directory of the program.
        """
        return tuple(entry for text in self.texts(tag) if text for entry in text.split(":"))

    def symbols_size(self) -> int:
        """Return the bytes of the dynamic symbols; without section headers, up to their names."""
        sizes = (section.size for section in self.sections if section.kind == _DYNAMIC_SYMBOLS)
        return next(sizes, max(0, self.strings - self.offset_of_tag(SYMBOLS)))

    def _dynamic_entries(self) -> Iterator[tuple[int, int]]:
        form = "qQ" if self.is_wide else "iI"
        for segment in self.segments:
            if segment.kind == _DYNAMIC:
                size = min(segment.size, limits.ELF_TAGS)
                for tag, value in self.records(form, segment.offset, size):
                    if tag == 0:
                        return
                    yield tag, value

    def symbols(self) -> Iterator[tuple[int, ...]]:
        """Yield the offset of each dynamic symbol's name, and its section or 0."""
        form = "I2xH16x" if self.is_wide else "I10xH"
        return self.records(form, self.offset_of_tag(SYMBOLS), self.symbols_size())

    def section_names(self) -> dict[int, str]:
        """Return the sections' names by their offset in the table of names."""
        index = self._fields["shstrndx"]
        if index == _IN_SECTION and self.sections:
            index = self.sections[0].link
        if not 0 < index < len(self.sections):
            return {}
        table = self.sections[index]
        text = self.read(table.offset, _bounded(table.size, limits.ELF_NAMES))
        names, size = {}, 0
        for offset in {section.name for section in self.sections}:
            end = text.find(b"\0", offset)
            end = len(text) if end < 0 else end
            size += max(0, end - offset)
            if size > limits.ELF_NAMES:  # a name may be the end of another one
                raise ElfFormatError(f"its sections' names have more than {size} bytes")
            names[offset] = text[offset:end].decode("utf-8", "replace")
        return names

    def _sections(self) -> tuple[SectionHeader, ...]:
        offset, count, step = (self._fields[name] for name in ("shoff", "shnum", "shentsize"))
        form = "IIQQQQII" if self.is_wide else "8I"
        if not offset:
            return ()
        first = SectionHeader(*self.unpack(form, offset))
        rows = self._rows(form, offset, count or first.size, step)
        return tuple(SectionHeader(*row) for row in rows)

    def _segments(self) -> tuple[Segment, ...]:
        offset, count, step = (self._fields[name] for name in ("phoff", "phnum", "phentsize"))
        if count == _IN_SECTION and self.sections:
            count = self.sections[0].info
        if not self.is_wide:  # the same fields, in another order
            rows = self._rows("8I", offset, count, step)
            return tuple(Segment(r[0], r[6], r[1], r[2], r[4], r[5], r[7]) for r in rows)
        rows = self._rows("IIQQQQQQ", offset, count, step)
        return tuple(Segment(r[0], r[1], r[2], r[3], r[5], r[6], r[7]) for r in rows)

    def _rows(self, form: str, offset: int, count: int, step: int) -> list[tuple[int, ...]]:
        """Return the rows of a table, each without the part behind its known fields."""
        record = struct.Struct(self._order + form)
        if count and step < record.size:
            raise ElfFormatError(f"a header of {step} bytes is too short")
        data = self.read(offset, _bounded(count * step, limits.ELF_TABLE)) if count else b""
        return [record.unpack_from(data, row * step) for row in range(count)]


def read_notes(data: bytes, align: int = 4) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield owner, kind and content of each note (System V ABI, "Note Section")."""
    offset = 0
    while offset + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, offset)
        name_end = offset + _NOTE.size + name_size
        start = -(-name_end // align) * align
        yield data[offset + _NOTE.size : name_end], kind, data[start : start + size]
        offset = -(-(start + size) // align) * align


def _bounded(size: int, limit: int) -> int:
    if size > limit:
        raise ElfFormatError(
            f"a table of {size} bytes is invalid or too large; at most {limit} bytes are read"
        )
    return size
