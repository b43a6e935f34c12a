"""A member of a zip archive, read once from end to end, and then at any offset without a copy.

zipfile can only go back by beginning again. Here unpacking notes offsets to go on from later:
zlib's state, every few MiB. The form is the one of the .ZIP File Format Specification (PKWARE).
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zlib_ng import zlib_ng

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 1 << 20  # bytes, the most that is unpacked at a time
_PACKED = 1 << 18  # bytes, of what is read of the archive at a time
_SPACING = 1 << 23  # bytes between two such offsets; a state takes about 45 kB, so 6 MB for 1 GiB
_KEPT = 16  # pieces that are kept for the next read
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, length of the name and of the extra field
_SIGNATURE = b"PK\3\4"
_ENCRYPTED = 1  # general purpose bit 0, specification 4.4.4
_UTF8 = 1 << 11  # general purpose bit 11


@dataclass(frozen=True, kw_only=True)
class _Point:
    """Where unpacking can begin: bytes unpacked and packed before it, zlib's state there."""

    unpacked: int
    packed: int
    state: Any  # zlib's, a type without a public name; None where the member is stored


class SeekableMember:
    """A file of an archive.

    Args:
        archive: a file descriptor of the archive; only `pread` is used, so threads can share it.
        entry: the member.

    Attributes:
        name: of the member.
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
        """The content, in pieces of up to `PIECE` bytes; then `open` works.

        Raises:
            zipfile.BadZipFile: it is damaged, or encrypted.
            zlib_ng.error: likewise.
            NotImplementedError: it is packed in a way that wheels are not.
        """
        self._start = _start_of(self._archive, self._entry)
        state = zlib_ng.decompressobj(-zlib_ng.MAX_WBITS) if self._is_packed() else None
        self._points = [_Point(unpacked=0, packed=0, state=state)]
        checksum, size = 0, 0
        for offset, piece in self._unpack(self._points[0]):
            self._last.append((offset, piece))
            checksum = zlib_ng.crc32(piece, checksum)
            size += len(piece)
            yield piece
        if (checksum, size) != (self._entry.CRC, self.size):
            raise zipfile.BadZipFile(f"the content of {self.name!r} doesn't match its checksum")

    def open(self) -> io.BufferedReader:
        """A seekable file of the content; `pieces` has to have come to its end before."""
        return io.BufferedReader(_MemberFile(self, self._last))

    def nearest(self, offset: int) -> int:
        """The last offset, not behind the one given, where unpacking can begin."""
        return self._points[self._index(offset)].unpacked

    def unpack_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Pieces, each with its offset, from the `nearest` one on."""
        return self._unpack(self._points[self._index(offset)])

    def _index(self, offset: int) -> int:
        return bisect_right([point.unpacked for point in self._points], offset) - 1

    def _is_packed(self) -> bool:
        kind = self._entry.compress_type
        if kind not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NotImplementedError(f"{self.name!r} is compressed with method {kind}")
        return kind == zipfile.ZIP_DEFLATED

    def _unpack(self, point: _Point) -> Iterator[tuple[int, bytes]]:
        offset = point.unpacked
        pieces = self._copy(point) if point.state is None else self._inflate(point)
        for piece, packed, state in pieces:
            offset += len(piece)
            if offset > self.size:
                raise zipfile.BadZipFile(f"{self.name!r} is longer than its entry states")
            if offset >= self._points[-1].unpacked + _SPACING:
                kept = state.copy() if state else None
                self._points.append(_Point(unpacked=offset, packed=packed, state=kept))
            yield offset - len(piece), piece

    def _copy(self, point: _Point) -> Iterator[tuple[bytes, int, Any]]:
        packed = point.packed
        while piece := self._read(packed, PIECE):
            packed += len(piece)
            yield piece, packed, None

    def _inflate(self, point: _Point) -> Iterator[tuple[bytes, int, Any]]:
        """Each piece, how much of the packed content it took, and the state behind it."""
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
    """The content as a file; the pieces around the offsets that were read last are kept."""

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
    """Where a member's content begins, after its local header, which has to have its name."""
    if entry.flag_bits & _ENCRYPTED:
        raise zipfile.BadZipFile(f"{entry.filename!r} is encrypted")
    header = os.pread(archive, _LOCAL_HEADER.size, entry.header_offset)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(_SIGNATURE):
        raise zipfile.BadZipFile(f"{entry.filename!r} has no header")
    sizes: tuple[int, int] = _LOCAL_HEADER.unpack(header)[1:]
    offset = entry.header_offset + _LOCAL_HEADER.size
    name = os.pread(archive, sizes[0], offset)
    code = "utf-8" if entry.flag_bits & _UTF8 else "cp437"
    if name.decode(code, "replace") != entry.orig_filename:
        raise zipfile.BadZipFile(f"{entry.filename!r} has a different name in its header")
    return offset + sum(sizes)
