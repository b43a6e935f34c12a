"""Comparison of two ELF files, section by section."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import IO, NamedTuple

from cuwheel.base import limits
from cuwheel.base.formats.binaries.elf_image import ElfFormatError, ElfImage, SectionHeader
from cuwheel.base.formats.binaries.fatbin import code_of_cubin
from cuwheel.base.system.quantities import plural
from cuwheel.publish.rebuild.compare.device import (
    OpenDeviceFile,
    beside_fatbins,
    compare_device_code,
    compare_element_code,
    open_device_file,
)
from cuwheel.publish.rebuild.compare.differences import DifferenceData, Location
from cuwheel.publish.rebuild.compare.texts import (
    change_of_data,
    count_differing,
    differing_pairs,
    pair_differences,
)

_CUDA_MACHINE = 190  # EM_CUDA
_BUILD_ID = ".note.gnu.build-id"
_COMPILERS = ".comment"
_CODE = ".text"
_DEBUG = (".debug_", ".zdebug_", ".gdb_index", ".stab")
_NAMES = (".strtab", ".dynstr")
# Nothing but addresses, distances, sizes and hashes of what is elsewhere.
_TABLES = (
    *(".rel", ".got", ".plt", ".dynamic", ".init_array", ".fini_array", ".eh_frame"),
    *(".nvFatBinSegment", ".symtab", ".dynsym", ".shstrtab", ".gnu.hash", ".hash", ".gnu.version"),
)
_LARGEST = 1 << 28  # bytes of a section that is compared
_CHUNK = 1 << 20  # bytes
_TOO_LARGE = "it differs, and is too large to compare in detail"


class _Section(NamedTuple):
    """A section of an open ELF file."""

    image: ElfImage
    header: SectionHeader

    def part(self, start: int, size: int) -> bytes:
        """Read bytes of its content."""
        return self.image.read(self.header.offset + start, size)

    def read(self) -> bytes:
        """Read its content."""
        return self.part(0, self.header.size)


class _Pair(NamedTuple):
    """A section that both files have."""

    name: str
    a: _Section
    b: _Section


def compare_elf_files(a: IO[bytes], b: IO[bytes], location: Location) -> Iterator[DifferenceData]:
    """Compare two ELF files: libraries, object files, cubins."""
    try:
        images = ElfImage(a), ElfImage(b)
        if all(image.machine == _CUDA_MACHINE for image in images):
            yield from _compare_cubins(a, b, images[0], location)
        else:
            yield from _compare(a, b, images, location)
    except (ElfFormatError, struct.error) as problem:
        yield location.differs(f"its content differs, and can't be read: {problem}")


def _compare_cubins(
    a: IO[bytes], b: IO[bytes], image: ElfImage, location: Location
) -> Iterator[DifferenceData]:
    (arch,) = code_of_cubin(image.abi, image.flags).sass
    most = limits.DEVICE_CODE
    contents = [stream.read(most + 1) for stream in (a, b) if stream.seek(0) == 0]
    if max(map(len, contents)) > most:
        yield location.differs(_TOO_LARGE)
        return
    at = replace(location, code=f"SASS sm_{arch}")
    yield from compare_element_code("SASS", arch, contents[0], contents[1], at)


def _compare(
    a: IO[bytes], b: IO[bytes], images: tuple[ElfImage, ElfImage], location: Location
) -> Iterator[DifferenceData]:
    """Compare device code and host code; what only follows from the rest comes last, as one."""
    named = _sections_of(images[0]), _sections_of(images[1])
    files = (
        open_device_file(a, partial(_section_at, named[0])),
        open_device_file(b, partial(_section_at, named[1])),
    )
    differences = [*compare_device_code(*files, location)]
    device_sections = {difference.section for difference in differences}
    differences += _only_in_one(*named, location)
    tables = []
    pairs = (_Pair(name, named[0][name], named[1][name]) for name in named[0] if name in named[1])
    for pair in pairs:
        if _is_same(pair.a, pair.b):
            continue
        at = replace(location, section=pair.name)
        if pair.name in device_sections:
            differences += _compare_beside(pair, files, at)
        elif pair.name.startswith(_TABLES):
            tables.append(pair.name)
        else:
            differences += _compare_section(pair, at)
    if not tables and [item.causes for item in differences] == [("build-id",)]:
        fact = "only the build id differs: the linker's input differed, but not its output"
        differences = [replace(differences[0], fact=f"{fact}, as after strip", causes=())]
    yield from differences
    if tables:
        fact = f"addresses and tables differ: {', '.join(tables)}"
        at = replace(location, section=tables[0])
        is_explained = any(difference.causes != ("build-id",) for difference in differences)
        yield at.differs(fact, causes=("layout",) if is_explained else ())
    elif not differences:
        fact = "only bytes outside of sections differ: headers, padding"
        if not any(named):
            fact = "its content differs, and it has no sections to compare"
        yield location.differs(fact)


def _compare_beside(
    pair: _Pair, files: tuple[OpenDeviceFile, OpenDeviceFile], location: Location
) -> Iterator[DifferenceData]:
    """Compare the rest of a section after its fat binaries."""
    contents = []
    for section, file in zip((pair.a, pair.b), files, strict=True):
        start = section.header.offset
        end = start + section.header.size
        contents.append(beside_fatbins(file, start, end, _LARGEST + 1))
    if max(map(len, contents)) > _LARGEST:
        yield location.differs(_TOO_LARGE)
    elif contents[0] != contents[1]:
        yield from _compare_data(pair.name, contents[0], contents[1], location)


def _sections_of(image: ElfImage) -> dict[str, _Section]:
    """Return sections by name; several with one name, as in object files, are numbered."""
    names, sections = image.section_names(), dict[str, _Section]()
    for header in image.sections[1:]:
        name = names.get(header.name, "")
        key, number = name, 1
        while key in sections:
            number += 1
            key = f"{name} ({number})"
        sections[key] = _Section(image, header)
    return sections


def _section_at(sections: dict[str, _Section], offset: int) -> str:
    """Return the name of the section that has an offset of the file; empty: none has."""
    for name, section in sections.items():
        start = section.header.offset
        if section.header.is_in_file and start <= offset < start + section.header.size:
            return name
    return ""


def _only_in_one(
    a: dict[str, _Section], b: dict[str, _Section], location: Location
) -> Iterator[DifferenceData]:
    for which, names in (("first", a.keys() - b.keys()), ("second", b.keys() - a.keys())):
        for name in sorted(names):
            yield replace(location, section=name).differs(
                f"only the {which} has this section",
                causes=("line-information",) if name.startswith(_DEBUG) else (),
            )


def _is_same(a: _Section, b: _Section) -> bool:
    size = a.header.size
    if (size, a.header.is_in_file) != (b.header.size, b.header.is_in_file):
        return False
    if not a.header.is_in_file:
        return True
    return all(
        a.part(start, min(_CHUNK, size - start)) == b.part(start, min(_CHUNK, size - start))
        for start in range(0, size, _CHUNK)
    )


def _compare_section(pair: _Pair, location: Location) -> Iterator[DifferenceData]:
    if pair.name == _BUILD_ID:
        yield location.differs("the build id differs", causes=("build-id",))
    elif pair.name.startswith(_DEBUG):
        yield location.differs("debug information differs", causes=("line-information",))
    elif not (pair.a.header.is_in_file and pair.b.header.is_in_file):
        sizes = [
            f"{header.size:,} {'' if header.is_in_file else 'reserved '}bytes"
            for header in (pair.a.header, pair.b.header)
        ]
        yield location.differs(f"{sizes[0]}; {sizes[1]} in the second")
    elif max(pair.a.header.size, pair.b.header.size) > _LARGEST:
        yield location.differs(_TOO_LARGE)
    else:
        yield from _compare_content(pair, location)


def _compare_content(pair: _Pair, location: Location) -> Iterator[DifferenceData]:
    a, b = pair.a.read(), pair.b.read()
    if pair.name in _NAMES:
        pairs = differing_pairs(*(table.decode("utf-8", "replace").split("\0") for table in (a, b)))
        yield from pair_differences(pairs, location, "name")
        if not pairs:
            yield location.differs("the same names are in another order")
    elif pair.name == _CODE:
        yield location.differs(f"host code: {_bytes_fact(a, b)}")
    else:
        yield from _compare_data(pair.name, a, b, location)


def _compare_data(section: str, a: bytes, b: bytes, location: Location) -> Iterator[DifferenceData]:
    change = change_of_data(a, b)
    for text in pair_differences(change.pairs, location, "text"):
        is_compiler = section == _COMPILERS and not text.causes
        yield replace(text, causes=("host-compiler",)) if is_compiler else text
    if not change.is_all:
        yield location.differs(_bytes_fact(a, b))


def _bytes_fact(a: bytes, b: bytes) -> str:
    if len(a) != len(b):
        return f"{len(a):,} bytes; {len(b):,} in the second"
    return f"{count_differing(a, b):,} of {plural(len(a), 'byte')} differ"
