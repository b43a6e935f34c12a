"""Whether two wheels are the same bytes, and if not, why: the archive, then member by member."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import IO, TYPE_CHECKING, NamedTuple

from cuwheel.binaries.elf import is_elf
from cuwheel.system.files import sha256_of_file
from cuwheel.system.quantities import plural
from cuwheel.verify.compare.archive import OpenArchive, compare_archives
from cuwheel.verify.compare.bytes import (
    change_of_data,
    count_differing,
    pair_differences,
)
from cuwheel.verify.compare.device import (
    beside_fatbins,
    compare_device_code,
    compare_element_code,
    open_device_file,
)
from cuwheel.verify.compare.differences import Comparison, Difference, Location, Side
from cuwheel.verify.compare.elf import compare_elf_files
from cuwheel.verify.compare.text_causes import differing_pairs
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.record import ContentHash, RecordFormatError, record_rows
from cuwheel.wheel.zip_reader import SeekableMember

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.wheel.archive import Wheel
    from cuwheel.wheel.record import Content


_LARGEST = 1 << 26  # bytes of a member that is neither ELF nor device code, to be compared


class _Read(NamedTuple):
    """A wheel that was read: what each of its files holds."""

    wheel: Wheel
    archive: OpenArchive
    contents: dict[str, Content]


def compare(a: Path, b: Path) -> Comparison:
    """Compare two wheels.

    Equal ones cost two hashes; only members that differ are taken apart, a part at a time.

    Raises:
        UnsafeArchiveError: one of them isn't a wheel, or is damaged.
        OSError: one of them can't be read.
    """
    side_a, side_b = _side(a), _side(b)
    differences: tuple[Difference, ...] = ()
    if side_a.sha256 != side_b.sha256:
        with open_wheel(a) as one, open_wheel(b) as other, a.open("rb") as x, b.open("rb") as y:
            differences = tuple(_differences(_read(one, x.fileno()), _read(other, y.fileno())))
    return Comparison(a=side_a, b=side_b, differences=differences)


def _side(path: Path) -> Side:
    return Side(file_name=path.name, sha256=sha256_of_file(path), size=path.stat().st_size)


def _read(wheel: Wheel, descriptor: int) -> _Read:
    contents = {}
    for member in wheel.members(descriptor):
        hashed = ContentHash()
        for piece in member.pieces():
            hashed.update(piece)
        contents[member.name] = hashed.content()
    return _Read(wheel, OpenArchive(wheel.archive, descriptor), contents)


def _differences(a: _Read, b: _Read) -> Iterator[Difference]:
    common = [name for name in a.contents if name in b.contents]
    other = {name for name in common if a.contents[name] != b.contents[name]}
    found = [*_only_in_one(a, b)]
    for name in common:
        if name in other:
            found += _compare_members(a, b, name)
    found += compare_archives(a.archive, b.archive, [name for name in common if name not in other])
    yield from found
    if not found:
        fact = "only parts that archive readers ignore differ: local headers, gaps, duplicates"
        yield Difference(location=Location(), fact=fact)


def _only_in_one(a: _Read, b: _Read) -> Iterator[Difference]:
    for which, one, other in (("first", a, b), ("second", b, a)):
        for name in one.contents:
            if name not in other.contents:
                yield Difference(
                    location=Location(member=name), fact=f"only the {which} wheel has it"
                )


def _compare_members(a: _Read, b: _Read, name: str) -> Iterator[Difference]:
    location = Location(member=name)
    if name == f"{a.wheel.dist_info}/RECORD":
        yield _compare_records(a, b, location)
        return
    one, other = _member(a, name), _member(b, name)
    with one.open() as stream_a, other.open() as stream_b:
        if is_elf(stream_a) and is_elf(stream_b):
            yield from compare_elf_files(stream_a, stream_b, location)
        elif name == f"{a.wheel.dist_info}/WHEEL":
            yield from map(_with_generator, _compare_others(stream_a, stream_b, location))
        else:
            yield from _compare_others(stream_a, stream_b, location)


def _member(read: _Read, name: str) -> SeekableMember:
    """A member that was read to its end, so that it can be opened."""
    member = SeekableMember(read.archive.descriptor, read.archive.entries[name])
    for _ in member.pieces():
        pass
    return member


def _compare_records(a: _Read, b: _Read, location: Location) -> Difference:
    """RECORD lists hashes: where only rows of members that differ do, it merely follows."""
    try:
        rows = [set(record_rows(one.wheel.read_text("RECORD"))) for one in (a, b)]
    except RecordFormatError as problem:
        return Difference(
            location=location, fact=f"it differs, and can't be read as rows: {problem}"
        )
    names = {name for name, _, _ in rows[0] ^ rows[1]}
    same = {name for name in names if a.contents.get(name) == b.contents.get(name)}
    if not names:
        return Difference(
            location=location, fact="the same rows, in another order or with other line endings"
        )
    if same:
        return Difference(
            location=location, fact=f"another row for {min(same)}, which doesn't differ"
        )
    fact = f"{plural(len(names), 'row')} for members that differ"
    return Difference(location=location, fact=fact, causes=("record",))


def _compare_others(a: IO[bytes], b: IO[bytes], location: Location) -> Iterator[Difference]:
    """Members that aren't ELF: fat binaries, static libraries, PTX, texts, data."""
    files = open_device_file(a), open_device_file(b)
    found = tuple(compare_device_code(*files, location))
    yield from found
    rest_a, rest_b = (
        beside_fatbins(one, 0, one.stream.seek(0, io.SEEK_END), _LARGEST + 1) for one in files
    )
    if max(len(rest_a), len(rest_b)) > _LARGEST:
        yield Difference(
            location=location, fact="its content differs, and is too large to compare in detail"
        )
    elif location.member.endswith(".ptx"):
        yield from compare_element_code("PTX", "", rest_a, rest_b, location)
    elif rest_a != rest_b:
        yield from _compare_bytes(rest_a, rest_b, location)
    elif not found:
        yield Difference(
            location=location, fact="only headers or padding of its fat binaries differ"
        )


def _compare_bytes(a: bytes, b: bytes, location: Location) -> Iterator[Difference]:
    """Line by line where both are texts, else text by text."""
    lines_a, lines_b = _lines(a), _lines(b)
    if lines_a and lines_b:
        pairs = differing_pairs(lines_a, lines_b)
        yield from pair_differences(pairs, location, "line")
        if not pairs:
            yield Difference(
                location=location,
                fact="the same lines, in another order or with other line endings",
            )
        return
    change = change_of_data(a, b)
    yield from pair_differences(change.pairs, location, "text")
    if not change.is_all:
        fact = f"{count_differing(a, b):,} of {plural(max(len(a), len(b)), 'byte')} differ"
        yield Difference(location=location, fact=fact)


def _lines(content: bytes) -> list[str]:
    """The lines of a text; none where it is none."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return []
    return [] if "\0" in text else text.splitlines()


def _with_generator(one: Difference) -> Difference:
    """The line of WHEEL that says which program wrote it."""
    is_generator = one.a.startswith("Generator:") and one.b.startswith("Generator:")
    return replace(one, causes=("wheel-generator",)) if is_generator else one
