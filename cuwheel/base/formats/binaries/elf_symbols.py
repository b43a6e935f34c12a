"""Symbols of shared libraries, looked up as by the loader: a library of 1 GB costs a few pages.

The hash table: `DT_GNU_HASH`, as glibc reads it (elf/dl-lookup.c, `do_lookup_x`); the older one and
the symbols' fields: System V ABI, "Hash Table" and "Symbol Table".
"""

from __future__ import annotations

import functools
import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from cuwheel.base import limits
from cuwheel.base.formats.binaries.elf_image import (
    NEEDED,
    STRINGS_SIZE,
    SYMBOLS,
    ElfFormatError,
    ElfImage,
)

_GNU_HASH = 0x6FFFFEF5
_VERSION_OF_SYMBOL = 0x6FFFFFF0  # DT_VERSYM
# DT_RELA, DT_REL and DT_JMPREL, with their sizes; DT_PLTREL: which of both kinds the last has.
_RELA, _RELA_SIZE, _REL, _REL_SIZE, _CALLS, _CALLS_SIZE, _CALLS_KIND = 7, 8, 17, 18, 23, 2, 20
_RELA_WORDS, _REL_WORDS = 3, 2  # of 8 bytes in an entry, the second of which has the symbol
_RELATIVES = 0x6FFFFFF9  # DT_RELACOUNT: the first of these, without a symbol
SYMBOL_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10  # STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE
_FIRST_VERSION, _VERSION_BITS = 2, 0x7FFF  # 0 and 1: of no version
SYMBOL = struct.Struct("<IBBHQQ")
_CHUNK = 1 << 20  # bytes
_NAMED = re.compile(r"_Z(?:T[VIST])?N?[VrK]*[RO]?")

# Lengths of names; and other digits: substitutions (`S1_`), parameters of templates (`T0_`),
# literals (`Lj8E`), lengths of arrays (`A4_`).
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_NO_NAME = re.compile(r"[ST][0-9A-Z]*_|L[a-z]n?[0-9]+E|A[0-9]+_")


@dataclass(frozen=True, kw_only=True)
class Exports:
    """Symbols that a library defines for others, as the hashes that the loader compares.

    Four bytes a symbol: a million of them are 4 MB. A wrong match has a probability of
    symbols / 2^31.
    """

    hashes: array[int]

    @classmethod
    def of(cls, hashes: Iterable[int]) -> Exports:
        """Return those with these hashes, of `gnu_hash` or from the loader's table."""
        return cls(hashes=array("I", sorted({value | 1 for value in hashes})))

    def __contains__(self, name: str) -> bool:
        """Return True if it defines a name."""
        value = gnu_hash(name) | 1
        at = bisect_left(self.hashes, value)
        return at < len(self.hashes) and self.hashes[at] == value


class Symbols:
    """Dynamic symbols of an open library; 64 bits, little-endian.

    Raises:
        ElfFormatError: it isn't ELF, is damaged, or isn't for such a machine.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._image = ElfImage(stream)
        if not self._image.is_wide:
            raise ElfFormatError("it is a 32-bit file")
        self.needed = self._image.texts(NEEDED)

    def has_section(self, name: str) -> bool:
        """Return True if a section has this name."""
        return name in self._image.section_names().values()

    def undefined(self) -> Iterator[str]:
        """Return names that have to come from other libraries; weak ones are left out."""
        return map(self._name, self._select((SYMBOL_GLOBAL,), is_defined=False))

    def unversioned(self) -> tuple[str, ...]:
        """Return undefined names without library and version: any library may define them.

        Those without a relocation, which the loader never looks up, are left out.
        """
        names, size = [], 0
        used = self._relocated()
        versions = self._image.offset_of_tag(_VERSION_OF_SYMBOL)
        for index, (at, kind, section) in enumerate(self._all(self._first_hashed())):
            if section or not at or kind >> 4 != SYMBOL_GLOBAL or index not in used:
                continue
            version = self._image.unpack("H", versions + 2 * index)[0] if versions else 0
            if version & _VERSION_BITS < _FIRST_VERSION:
                names.append(self._name(at))
                size += len(names[-1])  # one may be the end of another
                if size > limits.ELF_NAMES:
                    raise ElfFormatError(f"its names take more than {limits.ELF_NAMES} bytes")
        return tuple(sorted(names))

    def _relocated(self) -> set[int]:
        """Return the numbers of the symbols that relocations name."""
        image, numbers = self._image, set[int]()
        for table, size, words in (
            (_RELA, image.first(_RELA_SIZE), _RELA_WORDS),
            (_REL, image.first(_REL_SIZE), _REL_WORDS),
            (_CALLS, image.first(_CALLS_SIZE), self._words_of_calls()),
        ):
            start = image.offset_of_tag(table)
            chunk = 8 * words * (_CHUNK // 8 // words)
            first = 8 * words * image.first(_RELATIVES) if table == _RELA else 0
            for offset in range(first, size if start else 0, chunk):
                part = array("Q", image.read(start + offset, min(chunk, size - offset)))
                numbers.update(info >> 32 for info in set(part[1::words]))
        return numbers

    def _words_of_calls(self) -> int:
        return _REL_WORDS if self._image.first(_CALLS_KIND) == _REL else _RELA_WORDS

    def exports(self) -> Exports:
        """Return the symbols that it defines, without their versions."""
        first = self._first_hashed()
        if first is None:
            return Exports.of(map(gnu_hash, self.defined()))
        return Exports.of(self._hash_table.hashes(max(0, self._count() - first)))

    def defined(self) -> Iterator[str]:
        """Return names that it defines for others."""
        return map(self._name, self._select((SYMBOL_GLOBAL, _WEAK, _UNIQUE), is_defined=True))

    def lacking(self, names: Iterable[str]) -> set[str]:
        """Return those of some names that it doesn't define."""
        missing = set(names)
        if not missing or not self._image.offset_of_tag(SYMBOLS):
            return missing
        if self._image.dynamic[_GNU_HASH]:
            return {name for name in missing if not self._is_hashed(name)}
        return missing.difference(
            map(self._name, self._select((SYMBOL_GLOBAL, _WEAK), is_defined=True))
        )

    def mentions(self, prefixes: Iterable[str]) -> set[str]:
        """Return those of some prefixes with which a name in its table of names begins."""
        encoded = {prefix.encode() for prefix in prefixes}
        mentioned: set[bytes] = set()
        size = self._image.first(STRINGS_SIZE)
        for offset in range(0, size, _CHUNK):
            piece = self._image.read(
                self._image.strings + offset, min(_CHUNK + limits.ELF_NAME, size - offset)
            )
            mentioned.update(prefix for prefix in encoded - mentioned if b"\0" + prefix in piece)
        return {prefix.decode() for prefix in mentioned}

    def _is_hashed(self, name: str) -> bool:
        start = self._image.offset_of_tag(SYMBOLS)
        for index in self._hash_table.candidates(name):
            offset = start + index * SYMBOL.size
            at, _, _, section, _, _ = self._image.unpack("IBBHQQ", offset)
            if section and self._name(at) == name:
                return True
        return False

    @functools.cached_property
    def _hash_table(self) -> _HashTable:
        return _HashTable(self._image, self._image.offset_of_tag(_GNU_HASH))

    def _first_hashed(self) -> int | None:
        """Return the number of the first symbol in the hash table, behind all undefined ones."""
        return self._hash_table.first if self._image.dynamic[_GNU_HASH] else None

    def _name(self, at: int) -> str:
        return self._image.name(self._image.strings + at)

    def _select(self, bindings: tuple[int, ...], *, is_defined: bool) -> Iterator[int]:
        for name, kind, section in self._all():
            if name and bool(section) is is_defined and kind >> 4 in bindings:
                yield name

    def _all(self, count: int | None = None) -> Iterator[tuple[int, int, int]]:
        """Yield of each symbol, or the first ones: its name's offset, its kind, its section."""
        if start := self._image.offset_of_tag(SYMBOLS):
            size = self._count(count) * SYMBOL.size
            for name, kind, _, section, _, _ in self._image.records("IBBHQQ", start, size):
                yield name, kind, section

    def _count(self, most: int | None = None) -> int:
        count = self._image.symbols_size() // SYMBOL.size
        count = count if most is None else min(count, most)
        if count > limits.ELF_SYMBOLS:
            raise ElfFormatError(f"it has {count} symbols, at most {limits.ELF_SYMBOLS} are read")
        return count


class _HashTable:
    """Table that leads from a name to symbols with its hash, from the `first` symbol on."""

    def __init__(self, image: ElfImage, offset: int) -> None:
        self._image = image
        self._buckets, self.first, self._bloom, self._shift = image.unpack("4I", offset)
        self._filter = offset + 16
        self._bucket_start = self._filter + 8 * self._bloom
        self._chains = self._bucket_start + 4 * self._buckets
        if not (self._buckets and self._bloom):
            raise ElfFormatError("its hash table is empty")

    def hashes(self, count: int) -> Iterator[int]:
        """Yield the hash of each symbol in it; the lowest bit isn't part of the hash."""
        for (value,) in self._image.records("I", self._chains, 4 * count):
            yield value

    def candidates(self, name: str) -> Iterator[int]:
        """Yield the numbers of symbols with the name's hash."""
        value = gnu_hash(name)
        (word,) = self._image.unpack("Q", self._filter + 8 * (value // 64 % self._bloom))
        bits = 1 << value % 64 | 1 << (value >> self._shift) % 64
        if word & bits != bits:
            return
        (index,) = self._image.unpack("I", self._bucket_start + 4 * (value % self._buckets))
        if index < self.first:
            return
        while True:
            (link,) = self._image.unpack("I", self._chains + 4 * (index - self.first))
            if link | 1 == value | 1:
                yield index
            if link & 1:
                return
            index += 1


def plain_name(mangled: str) -> str:
    """Return `c10::Error::what` of `_ZNK3c105Error4whatEv`; parameters are left out."""
    start = _NAMED.match(mangled)
    rest, parts = mangled[start.end() :] if start else "", []
    while number := re.match(r"\d+", rest):
        end = number.end() + int(number[0])
        parts.append(rest[number.end() : end])
        rest = rest[end:]
    return "::".join(parts) or mangled


def has_old_string(mangled: str) -> bool:
    """Return True if a C++ name holds `std::string` as it was before C++11: `Ss`.

    Itanium C++ ABI, "Compression": `Ss` is that string alone, outside of names.
    """
    at = 0
    while at < len(mangled):
        if mangled.startswith("Ss", at):
            return True
        if number := _NUMBER.match(mangled, at):
            at = number.end() + int(number[0])
        elif other := _NO_NAME.match(mangled, at):
            at = other.end()
        else:
            at += 1
    return False


def gnu_hash(name: str) -> int:
    """Return the hash of a name (`dl_new_hash` of glibc)."""
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value
