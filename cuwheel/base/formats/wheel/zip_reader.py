"""Members of a zip archive, read once from end to end, and then at any offset without a copy.

zipfile can only seek backwards by restarting; here unpacking records restart points: zlib's state,
every few MiB. The form is the one of the .ZIP File Format Specification (PKWARE).
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zlib_ng import zlib_ng

PIECE = 1 << 20  # bytes that are unpacked at a time, at most
_PACKED = 1 << 18  # bytes of the archive that are read at a time
_SPACING = 1 << 23  # bytes between two such points; a state takes about 45 kB, so 6 MB for 1 GiB
_KEPT = 16  # pieces that are kept for the next read
# Signature, flags, method, checksum, sizes, length of the name and of the extra field.
_LOCAL_HEADER = struct.Struct("<4s2xHH4xIIIHH")
_SIGNATURE = b"PK\3\4"
_STREAMED = 1 << 3  # general purpose bit 3
_ZIP64 = 0xFFFFFFFF
_ENCRYPTED = 1  # general purpose bit 0, specification 4.4.4
_UTF8 = 1 << 11  # general purpose bit 11
# The records at the end, 4.3.14 to 4.3.16.
_END_SIGNATURE = b"PK\5\6"  # begins the small record
_END = struct.Struct("<4s6xHLL2x")
_LOCATOR64 = struct.Struct("<4s4xQ4x")
_END64 = struct.Struct("<4s28xQQQ")
_ELSEWHERE = (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)  # in the small record: see the large one


@dataclass(frozen=True, kw_only=True)
class _Point:
    """Restart point: bytes unpacked and packed before it, and zlib's state."""

    unpacked: int
    packed: int
    state: Any  # zlib's, a type without a public name; None where the member is stored


class SeekableMember:
    """File of an archive.

    Args:
        archive: a file descriptor of the archive; only `pread` is used, so threads can share it.

    Attributes:
        size: unpacked, bytes.
    """

    def __init__(self, archive: int, entry: zipfile.ZipInfo) -> None:
        self.name = entry.filename
        self.size = entry.file_size
        self._archive = archive
        self._entry = entry
        self._start = 0
        self._points: list[_Point] = []
        # The tables of an ELF file are at its ends, and most files are no longer than this.
        self._last: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)

    def pieces(self) -> Iterator[bytes]:
        """Yield the content, in pieces of up to `PIECE` bytes; afterwards `open` works.

        Raises:
            zipfile.BadZipFile: it is damaged, or encrypted.
            zlib_ng.error: likewise.
            NotImplementedError: its compression isn't used by wheels.
        """
        self._start = _start_of(self._archive, self._entry)
        kind = self._entry.compress_type
        if kind not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NotImplementedError(f"{self.name!r} is compressed with method {kind}")
        is_packed = kind == zipfile.ZIP_DEFLATED
        state = zlib_ng.decompressobj(-zlib_ng.MAX_WBITS) if is_packed else None
        self._points = [_Point(unpacked=0, packed=0, state=state)]
        checksum, size = 0, 0
        for offset, piece in self._unpack(self._points[0]):
            self._last.append((offset, piece))
            checksum = zlib_ng.crc32(piece, checksum)
            size += len(piece)
            yield piece
        if (checksum, size) != (self._entry.CRC, self.size):
            raise zipfile.BadZipFile(f"the content of {self.name!r} doesn't match its checksum")

    def head(self, packed: int, most: int) -> bytes:
        """Return up to `most` bytes of the content, from the first `packed` bytes of the archive's.

        No checksum covers them. Raises the same errors, but none for the missing rest.
        """
        start = _start_of(self._archive, self._entry)
        data = os.pread(self._archive, min(packed, self._entry.compress_size), start)
        if self._entry.compress_type == zipfile.ZIP_STORED:
            return data[:most]
        if self._entry.compress_type != zipfile.ZIP_DEFLATED:
            return b""
        content: bytes = zlib_ng.decompressobj(-zlib_ng.MAX_WBITS).decompress(data, most)
        return content

    def open(self) -> io.BufferedReader:
        """Open a seekable file of the content; `pieces` has to be exhausted before."""
        return io.BufferedReader(_MemberFile(self, self._last))

    def nearest(self, offset: int) -> int:
        """Return the offset of the last restart point that isn't behind `offset`."""
        return self._points[self._index(offset)].unpacked

    def unpack_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Yield pieces, each with its offset, from the `nearest` point on."""
        return self._unpack(self._points[self._index(offset)])

    def _index(self, offset: int) -> int:
        return bisect_right([point.unpacked for point in self._points], offset) - 1

    def _unpack(self, point: _Point) -> Iterator[tuple[int, bytes]]:
        offset = point.unpacked
        pieces = self._copy(point) if point.state is None else self._inflate(point)
        for piece, packed, state in pieces:
            offset += len(piece)
            if offset > self.size:
                raise zipfile.BadZipFile(f"{self.name!r} is longer than its entry states")
            if offset >= self._points[-1].unpacked + _SPACING:
                saved = state.copy() if state else None
                self._points.append(_Point(unpacked=offset, packed=packed, state=saved))
            yield offset - len(piece), piece

    def _copy(self, point: _Point) -> Iterator[tuple[bytes, int, Any]]:
        packed = point.packed
        while piece := self._read(packed, PIECE):
            packed += len(piece)
            yield piece, packed, None

    def _inflate(self, point: _Point) -> Iterator[tuple[bytes, int, Any]]:
        """Yield each piece, the packed bytes up to its end, and the state behind it."""
        state, packed, data = point.state.copy(), point.packed, b""
        while not state.eof:
            if not data:
                data = self._read(packed, _PACKED)
                packed += len(data)
            is_end = not data
            piece = state.decompress(data, PIECE)
            data = state.unconsumed_tail
            if piece:
                yield piece, packed - len(data), state
            elif is_end:
                raise zipfile.BadZipFile(f"{self.name!r} is truncated")

    def _read(self, packed: int, size: int) -> bytes:
        size = min(size, self._entry.compress_size - packed)
        return os.pread(self._archive, size, self._start + packed)


class _MemberFile(io.RawIOBase):
    """The content as a file; the pieces around the last offsets are kept."""

    def __init__(self, member: SeekableMember, known: deque[tuple[int, bytes]]) -> None:
        super().__init__()
        self._member = member
        self._at = 0  # where the next read begins
        self._kept = known.copy()
        self._flow: Iterator[tuple[int, bytes]] = iter(())
        self._flow_at = -1  # where its next piece begins

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._member.size}
        self._at = max(0, start[whence] + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._at < self._member.size:
            start, piece = self._piece_at(self._at)
            part = piece[self._at - start :][: len(view) - done]
            view[done : done + len(part)] = part
            done += len(part)
            self._at += len(part)
        return done

    def _piece_at(self, offset: int) -> tuple[int, bytes]:
        for start, piece in self._kept:
            if start <= offset < start + len(piece):
                return start, piece
        if not self._member.nearest(offset) <= self._flow_at <= offset:
            self._flow = self._member.unpack_from(offset)
        for start, piece in self._flow:
            self._flow_at = start + len(piece)
            self._kept.append((start, piece))
            if offset < self._flow_at:
                return start, piece
        raise zipfile.BadZipFile(f"{self._member.name!r} is truncated")


def _start_of(archive: int, entry: zipfile.ZipInfo) -> int:
    """Return the offset of a member's content; check its local header."""
    if entry.flag_bits & _ENCRYPTED:
        raise zipfile.BadZipFile(f"{entry.filename!r} is encrypted")
    header = os.pread(archive, _LOCAL_HEADER.size, entry.header_offset)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(_SIGNATURE):
        raise zipfile.BadZipFile(f"{entry.filename!r} has no header")
    _, flags, method, *content, name_size, extra_size = _LOCAL_HEADER.unpack(header)
    _check_header(entry, flags, method, tuple(content))
    offset = entry.header_offset + _LOCAL_HEADER.size
    name = os.pread(archive, name_size, offset)
    code = "utf-8" if entry.flag_bits & _UTF8 else "cp437"
    if name.decode(code, "replace") != entry.orig_filename:
        raise zipfile.BadZipFile(f"{entry.filename!r} has a different name in its header")
    start: int = offset + name_size + extra_size
    return start


def _check_header(
    entry: zipfile.ZipInfo, flags: int, method: int, content: tuple[int, ...]
) -> None:
    stated = (entry.CRC, entry.compress_size, entry.file_size)
    # Written as a stream, sizes come behind the content; those of zip64 are in the extra field.
    is_later = flags & _STREAMED
    is_same = all(value in {right, _ZIP64} for value, right in zip(content, stated, strict=True))
    if method != entry.compress_type or not (is_later or is_same):
        raise zipfile.BadZipFile(f"{entry.filename!r} is different in its header")


def has_one_table(archive: zipfile.ZipFile) -> bool:
    """Return True if all records at the end lead to the whole table that zipfile has read.

    The last one is a small record, which each reader finds; before it there may be a large one
    (ZIP64) and a locator of its place. Python's zipfile takes the table of the large one, wherever
    the locator leads to; other readers need not.
    """
    stream = archive.fp
    if stream is None or _END_SIGNATURE in archive.comment:
        return False
    end = stream.seek(0, 2) - _END.size - len(archive.comment)
    first = max(0, end - _LOCATOR64.size - _END64.size)
    stream.seek(first)
    tail = stream.read(end + _END.size - first)
    number, start = len(archive.infolist()), archive.start_dir
    _, *small = _END.unpack_from(tail, end - first)
    large_at = end - _LOCATOR64.size - _END64.size
    if large_at < start or tail[_END64.size :][:4] != b"PK\6\7":
        return small == [number, end - start, start]
    signature, *large = _END64.unpack_from(tail)
    _, located_at = _LOCATOR64.unpack_from(tail, _END64.size)
    expected = [number, large_at - start, start]
    return (signature, located_at, large) == (b"PK\6\6", large_at, expected) and all(
        value in {right, elsewhere}
        for value, right, elsewhere in zip(small, expected, _ELSEWHERE, strict=True)
    )
