"""Symbols of shared libraries, found as the loader finds them: a library of 1 GB costs a few pages.

The hash table: `DT_GNU_HASH`, as glibc reads it (elf/dl-lookup.c, `do_lookup_x`); the older one and
the symbols' fields: System V ABI, "Hash Table" and "Symbol Table".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cuwheel import limits
from cuwheel.binaries.elf import symbols_size
from cuwheel.binaries.elf_image import ElfFormatError, ElfImage, search_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_STRINGS, _STRINGS_SIZE, _SYMBOLS, _GNU_HASH = 5, 10, 6, 0x6FFFFEF5
_GLOBAL, _WEAK = 1, 2  # STB_GLOBAL, STB_WEAK
_SYMBOL = struct.Struct("<IBBHQQ")
_CHUNK = 1 << 20  # bytes


@dataclass(frozen=True, kw_only=True)
class DynamicLinks:
    """What a library needs of the loader: fields as in `cuwheel.binaries.elf.Elf`."""

    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


class Symbols:
    """The dynamic symbols of a library that is open; 64 bits, little-endian.

    Args:
        stream: the file, seekable.

    Raises:
        ElfFormatError: it isn't ELF, is damaged, or isn't for such a machine.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        try:
            self._image = ElfImage(stream)
        except struct.error as problem:
            raise ElfFormatError(f"not a valid ELF file: {problem}") from None
        if not self._image.is_wide:
            raise ElfFormatError("it is for a machine of 32 bits")
        self._tags: dict[int, list[int]] = {}
        for tag, value in self._image.tags():
            self._tags.setdefault(tag, []).append(value)
        self._strings = self._offset_of(_STRINGS)

    @property
    def links(self) -> DynamicLinks:
        """What it needs, and where it leads the loader to."""
        return DynamicLinks(
            soname="".join(self._texts(_SONAME)[:1]),
            needed=self._texts(_NEEDED),
            rpath=search_entries(self._texts(_RPATH)),
            runpath=search_entries(self._texts(_RUNPATH)),
        )

    @property
    def section_names(self) -> frozenset[str]:
        """Names of its sections."""
        return frozenset(self._image.section_names().values())

    def undefined(self) -> Iterator[str]:
        """Names that have to come from other libraries; what may be missing is left out."""
        for name, kind, section in self._all():
            if section == 0 and name and kind >> 4 == _GLOBAL:
                yield self._image.name(self._strings + name)

    def lacking(self, names: Iterable[str]) -> set[str]:
        """Those of some names that it doesn't define."""
        missing = set(names)
        if not missing or not self._offset_of(_SYMBOLS):
            return missing
        if _GNU_HASH in self._tags:
            table = _HashTable(self._image, self._offset_of(_GNU_HASH))
            return {name for name in missing if not self._is_in(table, name)}
        for name, kind, section in self._all():
            if section and kind >> 4 in (_GLOBAL, _WEAK):
                missing.discard(self._image.name(self._strings + name))
        return missing

    def mentions(self, starts: Iterable[str]) -> set[str]:
        """Those of some beginnings with which a name in its table of names begins."""
        searched = {start.encode() for start in starts}
        found: set[bytes] = set()
        size = self._tags.get(_STRINGS_SIZE, [0])[0]
        for offset in range(0, size, _CHUNK):
            piece = self._image.read(
                self._strings + offset, min(_CHUNK + limits.ELF_NAME, size - offset)
            )
            found.update(start for start in searched - found if b"\0" + start in piece)
        return {start.decode() for start in found}

    def _is_in(self, table: _HashTable, name: str) -> bool:
        start = self._offset_of(_SYMBOLS)
        for index in table.candidates(name):
            offset = start + index * _SYMBOL.size
            at, _, _, section, _, _ = self._image.unpack("IBBHQQ", offset)
            if section and self._image.name(self._strings + at) == name:
                return True
        return False

    def _all(self) -> Iterator[tuple[int, int, int]]:
        """Of each symbol: where its name is, its kind, its section."""
        start = self._offset_of(_SYMBOLS)
        if not start:
            return
        size = symbols_size(self._image, start, self._strings)
        for name, kind, _, section, _, _ in self._image.records("IBBHQQ", start, size):
            yield name, kind, section

    def _offset_of(self, tag: int) -> int:
        return self._image.offset_of(self._tags[tag][0]) if tag in self._tags else 0

    def _texts(self, tag: int) -> tuple[str, ...]:
        return tuple(self._image.name(self._strings + one) for one in self._tags.get(tag, ()))


class _HashTable:
    """The table that leads from a name to the symbols that may bear it.

    Args:
        image: the library.
        offset: where the table begins in the file.
    """

    def __init__(self, image: ElfImage, offset: int) -> None:
        self._image = image
        self._buckets, self._offset, self._bloom, self._shift = image.unpack("4I", offset)
        self._filter = offset + 16
        self._bucket_start = self._filter + 8 * self._bloom
        self._chains = self._bucket_start + 4 * self._buckets
        if not (self._buckets and self._bloom):
            raise ElfFormatError("its hash table is empty")

    def candidates(self, name: str) -> Iterator[int]:
        """Numbers of symbols with the name's hash."""
        value = _hash(name)
        (word,) = self._image.unpack("Q", self._filter + 8 * (value // 64 % self._bloom))
        bits = 1 << value % 64 | 1 << (value >> self._shift) % 64
        if word & bits != bits:
            return
        (index,) = self._image.unpack("I", self._bucket_start + 4 * (value % self._buckets))
        if index < self._offset:
            return
        while True:
            (link,) = self._image.unpack("I", self._chains + 4 * (index - self._offset))
            if link | 1 == value | 1:
                yield index
            if link & 1:
                return
            index += 1


def _hash(name: str) -> int:
    """`dl_new_hash` of glibc."""
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value
