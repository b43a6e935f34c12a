"""Comparison of two wheels: the same bytes, or else the archive, then member by member."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, NamedTuple

from cuwheel.base.formats.binaries.elf import is_elf
from cuwheel.base.formats.wheel.archive import Wheel, open_wheel
from cuwheel.base.formats.wheel.record import Content, ContentHash, RecordFormatError, record_rows
from cuwheel.base.formats.wheel.zip_reader import SeekableMember
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import open_file
from cuwheel.publish.rebuild.compare.device import (
    beside_fatbins,
    compare_device_code,
    compare_element_code,
    open_device_file,
)
from cuwheel.publish.rebuild.compare.differences import (
    CauseKey,
    DifferenceData,
    Location,
    Side,
    WheelComparison,
)
from cuwheel.publish.rebuild.compare.elf import compare_elf_files
from cuwheel.publish.rebuild.compare.texts import compare_data, differing_pairs, pair_differences

# .ZIP File Format Specification (PKWARE) 4.3.7: lengths of the name and of the extra field.
_LOCAL_HEADER = struct.Struct("<26xHH")
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
_CHUNK = 1 << 20  # bytes
_LARGEST = 1 << 26  # bytes of a member that is neither ELF nor device code, to be compared


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
    _Field("system or version", lambda entry: (entry.create_system, entry.create_version)),
    _Field("flag or attribute", lambda entry: (entry.flag_bits, entry.external_attr & 0xFFFF)),
    _Field("extra field or comment", lambda entry: entry.extra + entry.comment),
)  # fmt: skip


def compare_archives(
    a: OpenArchive, b: OpenArchive, same: Collection[str]
) -> Iterator[DifferenceData]:
    """Compare archives: their order, and what they note of common members."""
    yield from _compare_order(a, b)
    for field in _FIELDS:
        yield from _compare_field(a, b, field)
    yield from _compare_packing(a, b, same)


def _compare_order(a: OpenArchive, b: OpenArchive) -> Iterator[DifferenceData]:
    common = a.entries.keys() & b.entries.keys()
    orders = [[name for name in side.entries if name in common] for side in (a, b)]
    moved = [pair for pair in zip(*orders, strict=True) if pair[0] != pair[1]]
    if moved:
        yield Location().differs(
            f"{plural(len(moved), 'member')} are in another order, the first of them here",
            a=moved[0][0],
            b=moved[0][1],
            causes=("member-order",),
        )


def _compare_field(a: OpenArchive, b: OpenArchive, field: _Field) -> Iterator[DifferenceData]:
    """Yield one difference for all members that differ in a field."""
    changes = []
    for name, entry in a.entries.items():
        other = b.entries.get(name)
        if other and field.read(entry) != field.read(other):
            changes.append((name, field.read(entry), field.read(other)))
    if changes:
        name, text_a, text_b = changes[0]
        more = f" and {plural(len(changes) - 1, 'other')}" if len(changes) > 1 else ""
        yield Location().differs(
            f"the {field.name} of {name}{more} differs",
            a=str(text_a),
            b=str(text_b),
            causes=field.causes,
        )


def _compare_packing(
    a: OpenArchive, b: OpenArchive, same: Collection[str]
) -> Iterator[DifferenceData]:
    """Compare the compressed bytes of members with equal content."""
    repacked = [
        name
        for name in same
        if a.entries[name].compress_type == b.entries[name].compress_type
        and _packed(a, name) != _packed(b, name)
    ]
    if repacked:
        fact = f"{plural(len(repacked), 'member')} of equal content compressed to other bytes"
        yield Location().differs(f"{fact}, such as {repacked[0]}", causes=("deflate",))


def _packed(archive: OpenArchive, name: str) -> tuple[int, int]:
    """Return size and checksum of a member as it lies in the archive."""
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


class _Read(NamedTuple):
    """A wheel that was read: what each of its files holds."""

    wheel: Wheel
    archive: OpenArchive
    contents: dict[str, Content]


def compare(a: Path, b: Path) -> WheelComparison:
    """Compare two wheels.

    Equal ones cost two hashes; only members that differ are taken apart, a part at a time.

    Raises:
        UnsafeArchiveError: one of them isn't a wheel, or is damaged.
        OSError: one of them can't be read.
    """
    side_a, side_b = _side(a), _side(b)
    differences: tuple[DifferenceData, ...] = ()
    if side_a.sha256 != side_b.sha256:
        with _read(a) as read_a, _read(b) as read_b:
            differences = tuple(_differences(read_a, read_b))
    return WheelComparison(a=side_a, b=side_b, differences=differences)


def _side(path: Path) -> Side:
    return Side(file_name=path.name, sha256=sha256_of_file(path), size=path.stat().st_size)


@contextlib.contextmanager
def _read(path: Path) -> Iterator[_Read]:
    contents = {}
    with open_wheel(path) as wheel, open_file(path) as file:
        for member in wheel.members(file.fileno()):
            hashed = ContentHash()
            for piece in member.pieces():
                hashed.update(piece)
            contents[member.name] = hashed.content()
        yield _Read(wheel, OpenArchive(wheel.archive, file.fileno()), contents)


def _differences(a: _Read, b: _Read) -> Iterator[DifferenceData]:
    common = [name for name in a.contents if name in b.contents]
    changed = {name for name in common if a.contents[name] != b.contents[name]}
    differences = [
        Location(member=name).differs(f"only the {which} wheel has it")
        for which, side, opposite in (("first", a, b), ("second", b, a))
        for name in side.contents
        if name not in opposite.contents
    ]
    for name in common:
        if name in changed:
            differences += _compare_members(a, b, name)
    same = [name for name in common if name not in changed]
    differences += compare_archives(a.archive, b.archive, same)
    yield from differences
    if not differences:
        fact = "only what installers ignore differs: comments, folders, local headers, gaps"
        yield Location().differs(fact)


def _compare_members(a: _Read, b: _Read, name: str) -> Iterator[DifferenceData]:
    location = Location(member=name)
    if name == f"{a.wheel.dist_info}/RECORD":
        yield _compare_records(a, b, location)
        return
    member_a, member_b = _member(a, name), _member(b, name)
    with member_a.open() as stream_a, member_b.open() as stream_b:
        if is_elf(stream_a) and is_elf(stream_b):
            yield from compare_elf_files(stream_a, stream_b, location)
        elif name == f"{a.wheel.dist_info}/WHEEL":
            for difference in _compare_others(stream_a, stream_b, location):
                lines = difference.a, difference.b
                is_generator = all(line.startswith("Generator:") for line in lines)
                causes = ("wheel-generator",) if is_generator else difference.causes
                yield replace(difference, causes=causes)
        else:
            yield from _compare_others(stream_a, stream_b, location)


def _member(read: _Read, name: str) -> SeekableMember:
    """Return a member, read to its end, so that it can be opened."""
    member = SeekableMember(read.archive.descriptor, read.archive.entries[name])
    for _ in member.pieces():
        pass
    return member


def _compare_records(a: _Read, b: _Read, location: Location) -> DifferenceData:
    """Compare RECORD: rows of members that differ only follow from them."""
    try:
        rows = [set(record_rows(side.wheel.read_text("RECORD"))) for side in (a, b)]
    except RecordFormatError as problem:
        return location.differs(f"it differs, and can't be read as rows: {problem}")
    names = {name for name, _, _ in rows[0] ^ rows[1]}
    same = {name for name in names if a.contents.get(name) == b.contents.get(name)}
    if not names:
        return location.differs("the same rows, in another order or with other line endings")
    if same:
        return location.differs(f"another row for {min(same)}, which doesn't differ")
    fact = f"{plural(len(names), 'row')} for members that differ"
    return location.differs(fact, causes=("record",))


def _compare_others(a: IO[bytes], b: IO[bytes], location: Location) -> Iterator[DifferenceData]:
    """Compare members other than ELF: fat binaries, static libraries, PTX, texts, data."""
    files = open_device_file(a), open_device_file(b)
    differences = tuple(compare_device_code(*files, location))
    yield from differences
    rest_a, rest_b = (
        beside_fatbins(file, 0, file.stream.seek(0, io.SEEK_END), _LARGEST + 1) for file in files
    )
    if max(len(rest_a), len(rest_b)) > _LARGEST:
        yield location.differs("its content differs, and is too large to compare in detail")
    elif location.member.endswith(".ptx"):
        yield from compare_element_code("PTX", "", rest_a, rest_b, location)
    elif rest_a != rest_b:
        yield from _compare_bytes(rest_a, rest_b, location)
    elif not differences:
        yield location.differs("only headers or padding of its fat binaries differ")


def _compare_bytes(a: bytes, b: bytes, location: Location) -> Iterator[DifferenceData]:
    """Compare lines where both are texts, else texts in data."""
    lines_a, lines_b = _lines(a), _lines(b)
    if lines_a and lines_b:
        pairs = differing_pairs(lines_a, lines_b)
        yield from pair_differences(pairs, location, "line")
        if not pairs:
            yield location.differs("the same lines, in another order or with other line endings")
        return
    yield from compare_data(a, b, location)


def _lines(content: bytes) -> list[str]:
    """Return the lines of a text; none for data."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return []
    return [] if "\0" in text else text.splitlines()
