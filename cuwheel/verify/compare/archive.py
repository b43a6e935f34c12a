"""How two wheels differ as archives, apart from the contents of their members."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.system.quantities import plural
from cuwheel.verify.compare.differences import Difference, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cuwheel.verify.compare.differences import CauseKey


# .ZIP File Format Specification (PKWARE) 4.3.7: lengths of the name and of the extra field.
_LOCAL_HEADER = struct.Struct("<26xHH")
_LEVELS = range(1, 10)
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
_LEAST_CONCLUSIVE = 512  # bytes; shorter content is packed to the same bytes at several levels
_LARGEST = 1 << 23  # bytes; packing more nine times takes minutes
_CHUNK = 1 << 20  # bytes


@dataclass(frozen=True)
class OpenArchive:
    """A wheel as an archive that is open: zipfile's view, and a descriptor of the file."""

    zip: zipfile.ZipFile
    descriptor: int

    @cached_property
    def entries(self) -> dict[str, zipfile.ZipInfo]:
        """Its members and entries for folders, by name; of two with one name, the last."""
        return {entry.filename: entry for entry in self.zip.infolist()}


class _Field(NamedTuple):
    """Something that an archive notes of each member, and why it can differ."""

    name: str
    read: Callable[[zipfile.ZipInfo], object]
    causes: tuple[CauseKey, ...] = ()


_FIELDS = (
    _Field("time", lambda entry: "{}-{:02}-{:02} {:02}:{:02}:{:02}".format(*entry.date_time),
           ("member-times",)),
    _Field("mode", lambda entry: stat.filemode(entry.external_attr >> 16), ("member-modes",)),
    _Field("method", lambda entry: _METHODS.get(entry.compress_type, entry.compress_type)),
    _Field("system that made it", lambda entry: entry.create_system),
    _Field("version that made it", lambda entry: entry.create_version),
    _Field("flags", lambda entry: entry.flag_bits),
    _Field("other attributes", lambda entry: entry.external_attr & 0xFFFF),
    _Field("extra field", lambda entry: entry.extra.hex()),
    _Field("comment", lambda entry: entry.comment.decode("utf-8", "replace")),
)  # fmt: skip


def compare_archives(a: OpenArchive, b: OpenArchive, same: Collection[str]) -> Iterator[Difference]:
    """Everything that two archives say of the members that both have, and of themselves.

    Args:
        a: the first.
        b: the second.
        same: names of the members whose content is equal.
    """
    yield from _compare_order(a, b)
    comments = [one.zip.comment.decode("utf-8", "replace") for one in (a, b)]
    if comments[0] != comments[1]:
        fact = "the archive's comment differs"
        yield Difference(location=Location(), fact=fact, a=comments[0], b=comments[1])
    folders = sorted(name for name in a.entries.keys() ^ b.entries.keys() if name.endswith("/"))
    if folders:
        which = "first" if folders[0] in a.entries else "second"
        fact = f"only the {which} has an entry for the folder {folders[0]}"
        yield Difference(location=Location(), fact=fact)
    for field in _FIELDS:
        yield from _compare_field(a, b, field)
    yield from _compare_packing(a, b, same)


def _compare_order(a: OpenArchive, b: OpenArchive) -> Iterator[Difference]:
    common = a.entries.keys() & b.entries.keys()
    orders = [[name for name in one.entries if name in common] for one in (a, b)]
    moved = [pair for pair in zip(*orders, strict=True) if pair[0] != pair[1]]
    if moved:
        yield Difference(
            location=Location(),
            fact=f"{plural(len(moved), 'member')} are in another order, the first of them here",
            a=moved[0][0],
            b=moved[0][1],
            causes=("member-order",),
        )


def _compare_field(a: OpenArchive, b: OpenArchive, field: _Field) -> Iterator[Difference]:
    """One difference for all members: what is wrong with one is mostly wrong with all."""
    found = []
    for name, one in a.entries.items():
        other = b.entries.get(name)
        if other and field.read(one) != field.read(other):
            found.append((name, field.read(one), field.read(other)))
    if found:
        name, text_a, text_b = found[0]
        more = f" and {plural(len(found) - 1, 'other')}" if len(found) > 1 else ""
        yield Difference(
            location=Location(),
            fact=f"the {field.name} of {name}{more} differs",
            a=str(text_a),
            b=str(text_b),
            causes=field.causes,
        )


def _compare_packing(a: OpenArchive, b: OpenArchive, same: Collection[str]) -> Iterator[Difference]:
    """Equal content that was compressed to other bytes."""
    found = [
        name
        for name in same
        if a.entries[name].compress_type == b.entries[name].compress_type
        and _packed(a, name) != _packed(b, name)
    ]
    if not found:
        return
    # The shortest with a clear result is enough; a level is tried by packing anew.
    sizes = {name: a.entries[name].file_size for name in found}
    large = [name for name in found if sizes[name] >= _LEAST_CONCLUSIVE] or found
    name = min(large, key=sizes.__getitem__)
    levels = ["", ""]
    if sizes[name] <= _LARGEST:
        content = a.zip.read(name)
        levels = [_levels(content, b"".join(_pieces(one, name))) for one in (a, b)]
    are_known = all(levels)
    words = [f"level {text} of zlib {zlib.ZLIB_RUNTIME_VERSION}" if text else "" for text in levels]
    yield Difference(
        location=Location(),
        fact=f"{plural(len(found), 'member')} of equal content compressed to other bytes, such "
        f"as {name}",
        a=words[0] or "unknown level or zlib",
        b=words[1] or "unknown level or zlib",
        causes=("deflate-level",) if are_known else ("deflate",),
    )


def _levels(content: bytes, packed: bytes) -> str:
    """The levels at which this machine's zlib packs content to these bytes: `6`, `4-5`."""
    found = []
    for level in _LEVELS:
        packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        if packer.compress(content) + packer.flush() == packed:
            found.append(level)
    if not found:
        return ""
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def _packed(archive: OpenArchive, name: str) -> tuple[int, int]:
    """Size and checksum of a member as it lies in the archive."""
    size, checksum = 0, 0
    for piece in _pieces(archive, name):
        size += len(piece)
        checksum = zlib.crc32(piece, checksum)
    return size, checksum


def _pieces(archive: OpenArchive, name: str) -> Iterator[bytes]:
    entry = archive.entries[name]
    header = os.pread(archive.descriptor, _LOCAL_HEADER.size, entry.header_offset)
    offset = entry.header_offset + _LOCAL_HEADER.size + sum(_LOCAL_HEADER.unpack(header))
    end = offset + entry.compress_size
    while offset < end:
        piece = os.pread(archive.descriptor, min(_CHUNK, end - offset), offset)
        if not piece:
            raise EOFError(f"{name!r} is truncated")
        yield piece
        offset += len(piece)
