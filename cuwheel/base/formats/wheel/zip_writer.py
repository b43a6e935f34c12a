"""Writer of zip archives whose bytes depend on names, modes, contents and one time: docs/adr/0019.

Python's zipfile packs with the zlib of this Python, and the fields that it writes have changed
between Pythons. The form is the one of the .ZIP File Format Specification (PKWARE), whose sections
the numbers below name.
"""

from __future__ import annotations

import stat
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import IO

from zlib_ng import zlib_ng

# zlib-ng's package is locked by hash: one release for all Pythons. From level 7 on its streams
# don't depend on how the content was cut into pieces; 9 is up to 2 % smaller and takes up to 2.5
# times as long.
LEVEL = 7
COMPRESSOR = ("zlib-ng", str(zlib_ng.ZLIBNG_RUNTIME_VERSION))  # typed as a number

_SEE_ZIP64 = (1 << 32) - 1  # in a 32-bit field: the value is in the zip64 field, 4.4.8
_LIMIT = _SEE_ZIP64  # from which on a value is there
_COUNT_LIMIT = (1 << 16) - 1  # likewise of the number of entries, 4.4.22
_GROWTH = 256  # incompressible content grows by less than one part in so many
_EARLIEST, _LATEST = 315532800, 4354819198  # 1980-01-01, 2107-12-31: the range of DOS times

_LOCAL = struct.Struct("<4s5H3L2H")  # 4.3.7
_CENTRAL = struct.Struct("<4s6H3L5H2L")  # 4.3.12
_END64 = struct.Struct("<4sQ2H2L4Q")  # 4.3.14
_LOCATOR64 = struct.Struct("<4sLQL")  # 4.3.15
_END = struct.Struct("<4s4H2LH")  # 4.3.16
_DEFLATED = 8  # 4.4.5
_UNIX = 3  # "version made by", 4.4.2
_PLAIN, _ZIP64 = 20, 45  # version needed to extract, 4.4.3
_UTF8 = 1 << 11  # general purpose bit 11, 4.4.4
_ZIP64_FIELD = 1  # 4.5.3


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """Facts of a member; sizes and offset in bytes.

    Attributes:
        is_large: its local header has fields for 64-bit sizes.
    """

    name: bytes
    flags: int
    mode: int
    is_large: bool
    size: int
    offset: int
    checksum: int = 0
    packed: int = 0


class ZipWriter:
    """Writer of an archive, one member after the other, in bounded memory.

    Args:
        stream: the empty file to write; seekable.
        epoch: the time that every member gets, seconds since 1970; from 1980 to 2107.
        level: of compression, 0 (none) to 9.
    """

    def __init__(self, stream: IO[bytes], *, epoch: int, level: int = LEVEL) -> None:
        self._stream = stream
        self._level = level
        when = time.gmtime(min(max(epoch, _EARLIEST), _LATEST))
        # Time and date as 4.4.6 has them, in UTC, down to the even second.
        self._when = (
            when.tm_hour << 11 | when.tm_min << 5 | when.tm_sec // 2,
            (when.tm_year - 1980) << 9 | when.tm_mon << 5 | when.tm_mday,
        )
        self._entries: list[_Entry] = []

    def add(self, name: str, pieces: Iterable[bytes], *, mode: int, size: int) -> None:
        """Pack a member of `size` bytes."""
        blank = _Entry(
            name=name.encode(),
            flags=0 if name.isascii() else _UTF8,
            mode=mode,
            is_large=size >= _LIMIT - _LIMIT // _GROWTH,
            size=size,
            offset=self._stream.tell(),
        )
        self._stream.write(self._local_header(blank))
        entry = self._pack(blank, pieces)
        if entry.size != size:
            raise OSError(f"{name} had {size} bytes and now has {entry.size}")
        end = self._stream.tell()
        self._stream.seek(entry.offset)
        self._stream.write(self._local_header(entry))
        self._stream.seek(end)
        self._entries.append(entry)

    def finish(self) -> None:
        """Write the central directory."""
        offset = self._stream.tell()
        for entry in self._entries:
            self._stream.write(self._central_header(entry))
        end = self._stream.tell()
        self._stream.write(_end_records(len(self._entries), offset, end))

    def _pack(self, entry: _Entry, pieces: Iterable[bytes]) -> _Entry:
        """Write the content; return the entry with its sizes and checksum."""
        deflate = zlib_ng.compressobj(self._level, zlib_ng.DEFLATED, -zlib_ng.MAX_WBITS)
        checksum = size = packed = 0
        for piece in pieces:
            checksum = zlib_ng.crc32(piece, checksum)
            size += len(piece)
            packed += self._stream.write(deflate.compress(piece))
        packed += self._stream.write(deflate.flush())
        return replace(entry, checksum=checksum, packed=packed, size=size)

    def _local_header(self, entry: _Entry) -> bytes:
        """Return the header before the content, of a size that doesn't depend on the packed one."""
        needed, sizes, extra = _PLAIN, (entry.packed, entry.size), b""
        if entry.is_large:
            needed, sizes = _ZIP64, (_SEE_ZIP64, _SEE_ZIP64)
            extra = _zip64_field(entry.size, entry.packed)
        lengths = (len(entry.name), len(extra))
        fields = (needed, entry.flags, _DEFLATED, *self._when, entry.checksum, *sizes, *lengths)
        return _LOCAL.pack(b"PK\3\4", *fields) + entry.name + extra

    def _central_header(self, entry: _Entry) -> bytes:
        large = [value for value in (entry.size, entry.packed, entry.offset) if value >= _LIMIT]
        sizes = (_short(entry.packed), _short(entry.size))
        extra = _zip64_field(*large) if large else b""
        needed = _ZIP64 if large or entry.is_large else _PLAIN
        start = (_UNIX << 8 | needed, needed, entry.flags, _DEFLATED, *self._when, entry.checksum)
        # No comment, first disk, not declared as text.
        rest = (len(entry.name), len(extra), 0, 0, 0, (stat.S_IFREG | entry.mode) << 16)
        packed = _CENTRAL.pack(b"PK\1\2", *start, *sizes, *rest, _short(entry.offset))
        return packed + entry.name + extra


def _short(value: int) -> int:
    return value if value < _LIMIT else _SEE_ZIP64


def _zip64_field(*values: int) -> bytes:
    return struct.pack(f"<2H{len(values)}Q", _ZIP64_FIELD, 8 * len(values), *values)


def _end_records(count: int, offset: int, end: int) -> bytes:
    """Return the records behind a directory of so many entries, between these offsets."""
    size, records = end - offset, b""
    if count >= _COUNT_LIMIT or max(size, offset) >= _LIMIT:
        rest = _END64.size - 12  # what follows the field with this number
        fields = (_UNIX << 8 | _ZIP64, _ZIP64, 0, 0, count, count, size, offset)
        records = _END64.pack(b"PK\6\6", rest, *fields) + _LOCATOR64.pack(b"PK\6\7", 0, end, 1)
    shown = (min(count, _COUNT_LIMIT), _short(size), _short(offset))
    return records + _END.pack(b"PK\5\6", 0, 0, shown[0], *shown, 0)
