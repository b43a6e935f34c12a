"""Symbols of shared libraries, found as the loader finds them: a library of 1 GB costs a few pages.

The hash table: `DT_GNU_HASH`, as glibc reads it (elf/dl-lookup.c, `do_lookup_x`); the older one and
the symbols' fields: System V ABI, "Hash Table" and "Symbol Table".
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cuwheel import limits
from cuwheel.binaries.elf import symbols_size
from cuwheel.binaries.elf_image import ElfFormatError, ElfImage, search_entries
from cuwheel.binaries.symbol_names import gnu_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_STRINGS, _STRINGS_SIZE, _SYMBOLS, _GNU_HASH = 5, 10, 6, 0x6FFFFEF5
_VERSION_OF_SYMBOL = 0x6FFFFFF0  # DT_VERSYM
_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10  # STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE
_FIRST_VERSION, _VERSION_BITS = 2, 0x7FFF  # 0 and 1: of no version
_SYMBOL = struct.Struct("<IBBHQQ")
_CHUNK = 1 << 20  # bytes


@dataclass(frozen=True, kw_only=True)
class DynamicLinks:
    """What a library needs of the loader: fields as in `cuwheel.binaries.elf.Elf`."""

    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Exports:
    """What a library defines for others, as the hashes that the loader compares.

    Four bytes a symbol: a million of them are 4 MB. That a name is taken for one that is there
    though it isn't happens once in 2^31 / symbols.

    Attributes:
        hashes: of the names, the lowest bit set, sorted.
    """

    hashes: array[int]

    @classmethod
    def of(cls, hashes: Iterable[int]) -> Exports:
        """Those with these hashes, as `gnu_hash` gives them or the loader's table holds them."""
        return cls(hashes=array("I", sorted({value | 1 for value in hashes})))

    def __contains__(self, name: str) -> bool:
        """Whether it defines a name."""
        value = gnu_hash(name) | 1
        at = bisect_left(self.hashes, value)
        return at < len(self.hashes) and self.hashes[at] == value


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
            raise ElfFormatError("it is a 32-bit file")
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

    def unversioned(self) -> tuple[str, ...]:
        """Those that state no library and no version either: anything loaded may define them."""
        starts = []
        for index, (name, kind, section) in enumerate(self._all(self._first_hashed())):
            if section == 0 and name and kind >> 4 == _GLOBAL and not self._has_version(index):
                starts.append(name)
        return tuple(sorted(self._names(sorted(starts))))

    def exports(self) -> Exports:
        """What it defines; of names alone, without their versions."""
        first = self._first_hashed()
        found: Iterator[int]
        if first is None:
            kinds = (_GLOBAL, _WEAK, _UNIQUE)
            names = (name for name, kind, section in self._all() if section and kind >> 4 in kinds)
            found = (gnu_hash(self._image.name(self._strings + name)) for name in names)
        else:
            table = _HashTable(self._image, self._offset_of(_GNU_HASH))
            size = symbols_size(self._image, self._offset_of(_SYMBOLS), self._strings)
            found = table.hashes(max(0, _bounded(size // _SYMBOL.size) - first))
        return Exports.of(found)

    def defined(self) -> Iterator[str]:
        """Names that it defines for others."""
        for name, kind, section in self._all():
            if section and name and kind >> 4 in (_GLOBAL, _WEAK, _UNIQUE):
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

    def _first_hashed(self) -> int | None:
        """The number of the first symbol in the hash table, behind all that are undefined."""
        if _GNU_HASH not in self._tags:
            return None
        return self._image.unpack("4I", self._offset_of(_GNU_HASH))[1]

    def _names(self, starts: Iterable[int]) -> Iterator[str]:
        """The names that begin at these offsets; one may be the end of another."""
        size = 0
        for start in starts:
            name = self._image.name(self._strings + start)
            size += len(name)
            if size > limits.ELF_NAMES:
                raise ElfFormatError(f"its names take more than {limits.ELF_NAMES} bytes")
            yield name

    def _has_version(self, index: int) -> bool:
        if _VERSION_OF_SYMBOL not in self._tags:
            return False
        (version,) = self._image.unpack("H", self._offset_of(_VERSION_OF_SYMBOL) + 2 * index)
        return version & _VERSION_BITS >= _FIRST_VERSION

    def _all(self, count: int | None = None) -> Iterator[tuple[int, int, int]]:
        """Of each symbol, or the first ones: where its name is, its kind, its section."""
        start = self._offset_of(_SYMBOLS)
        if not start:
            return
        size = symbols_size(self._image, start, self._strings)
        if count is not None:
            size = min(size, count * _SYMBOL.size)
        _bounded(size // _SYMBOL.size)
        for name, kind, _, section, _, _ in self._image.records("IBBHQQ", start, size):
            yield name, kind, section

    def _offset_of(self, tag: int) -> int:
        return self._image.offset_of(self._tags[tag][0]) if tag in self._tags else 0

    def _texts(self, tag: int) -> tuple[str, ...]:
        return tuple(self._image.name(self._strings + one) for one in self._tags.get(tag, ()))


def _bounded(count: int) -> int:
    if count > limits.ELF_SYMBOLS:
        raise ElfFormatError(f"it has {count} symbols, at most {limits.ELF_SYMBOLS} are read")
    return count


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

    def hashes(self, count: int) -> Iterator[int]:
        """The hash of each of the symbols in it, whose lowest bit says something else."""
        for (value,) in self._image.records("I", self._chains, 4 * count):
            yield value

    def candidates(self, name: str) -> Iterator[int]:
        """Numbers of symbols with the name's hash."""
        value = gnu_hash(name)
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
