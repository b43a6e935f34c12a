"""Symbols of a shared library from its first bytes, where its end can't be read.

What leads to these tables, the dynamic section and the section headers, is near a file's end. GNU
ld puts the tables themselves first, in one order: hashes, symbols, names, versions (`ld --verbose`;
the fields: `elf_symbols`). A table isn't accepted by its place: names have to have the hashes of
the hash table, and those of versions the hashes beside them. A table that patchelf has moved to the
end isn't found.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from cuwheel.base import limits
from cuwheel.base.formats.binaries.elf_image import MAGIC
from cuwheel.base.formats.binaries.elf_symbols import SYMBOL, SYMBOL_GLOBAL, Exports, gnu_hash

_ABOVE_HEADERS = 64  # bytes; no table is before the end of the file's header
_SEARCHED = 1 << 16  # bytes in which the first table begins, behind the program headers and notes
_VERSIONS_AFTER = 1 << 21  # bytes between names and versions: two for each symbol
_ALIGN = 8  # bytes
_HASH = struct.Struct("<4I")  # buckets, first symbol, words of the filter, shift
_COMPARED = 1024  # names whose hashes are compared; each may match by chance once in 2^31
_STEPS = 1 << 22  # words of tables and bytes of names; a head can be made for an endless search
_NEEDED = struct.Struct("<HHIII")  # one, count, file, offset of the first version, of the next file
_VERSION = struct.Struct("<IHHII")  # hash, flags, number, name, offset of the next
_HEADER = struct.Struct("<4sBB10xHH")  # magic, class, byte order, type, machine
_WIDE, _LITTLE, _DYNAMIC = 2, 1, 3  # ELFCLASS64, ELFDATA2LSB, ET_DYN


@dataclass(frozen=True, kw_only=True)
class ElfHead:
    """The facts in the first bytes of a library.

    Attributes:
        machine: number of the ELF registry.
        undefined: required symbols, also those of a library and version; weak ones are left out.
        versions: library and symbol version that it needs.
    """

    machine: int
    undefined: tuple[str, ...]
    exports: Exports
    versions: tuple[tuple[str, str], ...]


def read_head(data: bytes) -> ElfHead | None:
    """Read the tables in the first bytes of a library; None: they aren't there, or not whole."""
    if len(data) < _ABOVE_HEADERS:
        return None
    magic, size, order, kind, machine = _HEADER.unpack_from(data)
    if (magic, size, order, kind) != (MAGIC, _WIDE, _LITTLE, _DYNAMIC):
        return None
    try:
        tables = _find_tables(data)
        return tables.read(machine) if tables else None
    except (struct.error, IndexError, _TooMuchError):
        return None


def _find_tables(data: bytes) -> _Tables | None:
    budget = _Budget()
    for at in range(_ABOVE_HEADERS, min(len(data), _SEARCHED), _ALIGN):
        try:
            if tables := _tables_at(data, at, budget):
                return tables
        except (struct.error, IndexError):  # noqa: PERF203 - there is no table, or a part of one
            continue
    return None


class _TooMuchError(Exception):
    """A search has taken all of its steps."""


@dataclass
class _Budget:
    left: int = _STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooMuchError


@dataclass(frozen=True, kw_only=True)
class _Tables:
    """Proven places of the tables: offsets in the data, and numbers of symbols."""

    data: bytes
    chains: int
    first: int
    count: int
    symbols: int
    names: int
    budget: _Budget
    kept: _Budget = field(default_factory=lambda: _Budget(limits.ELF_NAMES))

    def read(self, machine: int) -> ElfHead | None:
        end, undefined = self.names, []
        rows = SYMBOL.iter_unpack(self.data[self.symbols : self.names])
        for name, kind, _, section, _, _ in rows:
            text = self._name(name)
            end = max(end, self.names + name + len(text) + 1)
            if name and not section and kind >> 4 == SYMBOL_GLOBAL:
                self.kept.spend(len(text))  # one may be the end of another
                undefined.append(text.decode("utf-8", "replace"))
        chains = self.data[self.chains : self.chains + 4 * (self.count - self.first)]
        return ElfHead(
            machine=machine,
            undefined=tuple(sorted(undefined)),
            exports=Exports.of(value for (value,) in struct.iter_unpack("<I", chains)),
            versions=self._versions(end),
        )

    def are_proven(self) -> bool:
        """Return True if the names of hashed symbols have the hashes of the table."""
        if self.data[self.symbols : self.symbols + SYMBOL.size].strip(b"\0"):
            return False
        step = max(1, (self.count - self.first) // _COMPARED)
        return all(self._is_hashed(index) for index in range(self.first, self.count, step))

    def _is_hashed(self, index: int) -> bool:
        (chain,) = struct.unpack_from("<I", self.data, self.chains + 4 * (index - self.first))
        name, *_ = SYMBOL.unpack_from(self.data, self.symbols + index * SYMBOL.size)
        text = self._name(name).decode("utf-8", "surrogateescape")
        self.budget.spend(len(text))
        return bool(text) and gnu_hash(text) | 1 == chain | 1

    def _name(self, at: int) -> bytes:
        """Return a name; raises IndexError where it isn't whole."""
        start = self.names + at
        end = self.data.find(b"\0", start, start + limits.ELF_NAME)
        if end < 0:
            raise IndexError
        return self.data[start:end]

    def _versions(self, end: int) -> tuple[tuple[str, str], ...]:
        start = -(-(end + 2 * self.count) // _ALIGN) * _ALIGN - _ALIGN
        for at in range(start, min(start + _VERSIONS_AFTER, len(self.data)), _ALIGN):
            try:
                if pairs := tuple(self._needed_at(at)):
                    return pairs
            except (struct.error, IndexError, ValueError):  # noqa: PERF203 - there is none here
                continue
        return ()

    def _needed_at(self, at: int) -> Iterator[tuple[str, str]]:
        """Yield library and version; raises ValueError where no such table is."""
        for _ in range(limits.ELF_VERSIONS):
            one, count, file, first, after = _NEEDED.unpack_from(self.data, at)
            library, place = self._name(file).decode(), at + first
            if one != 1 or not count or ".so" not in library:
                raise ValueError
            for _ in range(min(count, limits.ELF_VERSIONS)):
                value, _, _, name, step = _VERSION.unpack_from(self.data, place)
                text = self._name(name)
                self.budget.spend(1 + len(text))
                if not text or _version_hash(text) != value:
                    raise ValueError
                yield library, text.decode()
                place += step
            if not after:
                return
            at += after


def _tables_at(data: bytes, at: int, budget: _Budget) -> _Tables | None:
    """Return the tables that follow a hash table; None: there is none, or it isn't proven."""
    buckets, first, words, _ = _HASH.unpack_from(data, at)
    begin = at + _HASH.size + 8 * words
    chains = begin + 4 * buckets
    if not (buckets and first and words) or words & (words - 1) or chains >= len(data):
        return None
    budget.spend(buckets)
    index = max(value for (value,) in struct.iter_unpack("<I", data[begin:chains]))
    if index < first:
        return None
    while not data[chains + 4 * (index - first)] & 1:  # the lowest bit ends a chain
        budget.spend(1)
        index += 1
    count = index + 1
    if count > limits.ELF_SYMBOLS:
        return None
    symbols = -(-(chains + 4 * (count - first)) // _ALIGN) * _ALIGN
    names = symbols + count * SYMBOL.size
    tables = _Tables(
        data=data,
        chains=chains,
        first=first,
        count=count,
        symbols=symbols,
        names=names,
        budget=budget,
    )
    return tables if names < len(data) and tables.are_proven() else None


def _version_hash(name: bytes) -> int:
    """Return the hash of a version's name (System V ABI, "Hash Table")."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value
