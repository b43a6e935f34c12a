"""How two ELF files differ: which section, and in what."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import IO, TYPE_CHECKING, NamedTuple

from cuwheel import limits
from cuwheel.binaries.elf_image import ElfFormatError, ElfImage
from cuwheel.binaries.fatbin import code_of_cubin
from cuwheel.system.quantities import plural
from cuwheel.verify.compare.bytes import (
    change_of_data,
    count_differing,
    pair_differences,
    quoted_bytes,
)
from cuwheel.verify.compare.device import (
    beside_fatbins,
    compare_device_code,
    compare_element_code,
    open_device_file,
)
from cuwheel.verify.compare.differences import Difference
from cuwheel.verify.compare.relocated import (
    calls_others,
    follows,
    functions_at,
    moves_between,
    sections_of,
)
from cuwheel.verify.compare.text_causes import differing_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.binaries.elf_image import SectionHeader
    from cuwheel.verify.compare.device import DeviceFile
    from cuwheel.verify.compare.differences import Location
    from cuwheel.verify.compare.relocated import ElfSection, Moves


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
_LARGEST_DEBUG = 1 << 24  # likewise, of debug information
_CHUNK = 1 << 20  # bytes
_TOO_LARGE = "it differs, and is too large to compare in detail"
_SHOWN = 3  # functions that are named


class _Pair(NamedTuple):
    """A section that both files have."""

    name: str
    a: ElfSection
    b: ElfSection


def compare_elf_files(a: IO[bytes], b: IO[bytes], location: Location) -> Iterator[Difference]:
    """Every difference between two ELF files: libraries, object files, cubins."""
    try:
        images = ElfImage(a), ElfImage(b)
        if all(image.machine == _CUDA_MACHINE for image in images):
            yield from _compare_cubins(a, b, images[0], location)
        else:
            yield from _compare(a, b, images, location)
    except (ElfFormatError, struct.error) as problem:
        yield Difference(
            location=location, fact=f"its content differs, and can't be read: {problem}"
        )


def _compare_cubins(
    a: IO[bytes], b: IO[bytes], image: ElfImage, location: Location
) -> Iterator[Difference]:
    (arch,) = code_of_cubin(image.abi, image.flags).sass
    most = limits.DEVICE_CODE
    contents = [stream.read(most + 1) for stream in (a, b) if stream.seek(0) == 0]
    if max(map(len, contents)) > most:
        yield Difference(location=location, fact=_TOO_LARGE)
        return
    at = replace(location, code=f"SASS sm_{arch}")
    yield from compare_element_code("SASS", arch, contents[0], contents[1], at)


def _compare(
    a: IO[bytes], b: IO[bytes], images: tuple[ElfImage, ElfImage], location: Location
) -> Iterator[Difference]:
    """Device code and host code; what only follows from the rest comes last, as one."""
    named = sections_of(images[0]), sections_of(images[1])
    files = _device_file(a, named[0]), _device_file(b, named[1])
    differences = [*compare_device_code(*files, location)]
    device_sections = {one.location.section for one in differences}
    differences += _only_in_one(*named, location)
    moves = moves_between(*named)
    differences += _other_calls(*named, moves, location)
    tables = []
    for pair in _differing(*named):
        at = replace(location, section=pair.name)
        if pair.name in device_sections and _holds_device_code(pair, files):
            differences += _compare_beside(pair, files, at)
        elif pair.name.startswith(_TABLES) or _is_moved(pair, moves):
            tables.append(pair.name)
        else:
            differences += _compare_section(pair, at)
    yield from differences if tables else _without_lone_build_id(differences)
    if tables:
        fact = f"addresses and tables differ: {', '.join(tables)}"
        at = replace(location, section=tables[0])
        is_explained = moves.is_any or any(one.causes != ("build-id",) for one in differences)
        yield Difference(location=at, fact=fact, causes=("layout",) if is_explained else ())
    elif not differences:
        fact = "only bytes outside of sections differ: headers, padding"
        if not any(named):
            fact = "its content differs, and it has no sections to compare"
        yield Difference(location=location, fact=fact)


def _without_lone_build_id(differences: list[Difference]) -> list[Difference]:
    """A build id follows from what the linker was given; alone it shows a removed part."""
    if [one.causes for one in differences] != [("build-id",)]:
        return differences
    fact = "only the build id differs: the linker's input differed, but not its output"
    return [replace(differences[0], fact=f"{fact}, as after strip", causes=())]


def _other_calls(
    a: dict[str, ElfSection], b: dict[str, ElfSection], moves: Moves, location: Location
) -> Iterator[Difference]:
    if _CODE in a and _CODE in b and calls_others(a[_CODE], b[_CODE], moves):
        fact = "host code calls other functions of other libraries"
        yield Difference(location=replace(location, section=_CODE), fact=fact)


def _device_file(stream: IO[bytes], sections: dict[str, ElfSection]) -> DeviceFile:
    """A file's fat binaries, with the section that each lies in."""
    file = open_device_file(stream)
    names = (
        next((name for name, section in sections.items() if section.holds(fatbin.offset)), "")
        for fatbin in file.fatbins
    )
    return file._replace(sections=tuple(names))


def _holds_device_code(pair: _Pair, files: tuple[DeviceFile, DeviceFile]) -> bool:
    return any(
        section.holds(fatbin.offset)
        for section, file in zip((pair.a, pair.b), files, strict=True)
        for fatbin in file.fatbins
    )


def _compare_beside(
    pair: _Pair, files: tuple[DeviceFile, DeviceFile], location: Location
) -> Iterator[Difference]:
    """What else differs in a section whose fat binaries are compared already."""
    contents = []
    for section, file in zip((pair.a, pair.b), files, strict=True):
        start = section.header.offset
        end = start + section.header.size
        contents.append(beside_fatbins(file, start, end, _LARGEST + 1))
    if max(map(len, contents)) > _LARGEST:
        yield Difference(location=location, fact=_TOO_LARGE)
    elif contents[0] != contents[1]:
        yield from _compare_data(pair.name, contents[0], contents[1], location)


def _only_in_one(
    a: dict[str, ElfSection], b: dict[str, ElfSection], location: Location
) -> Iterator[Difference]:
    for which, names in (("first", a.keys() - b.keys()), ("second", b.keys() - a.keys())):
        for name in sorted(names):
            yield Difference(
                location=replace(location, section=name),
                fact=f"only the {which} has this section",
                causes=("line-information",) if name.startswith(_DEBUG) else (),
            )


def _differing(a: dict[str, ElfSection], b: dict[str, ElfSection]) -> Iterator[_Pair]:
    for name, one in a.items():
        if name in b and not _is_same(one, b[name]):
            yield _Pair(name, one, b[name])


def _is_same(a: ElfSection, b: ElfSection) -> bool:
    size = a.header.size
    if (size, a.header.is_in_file) != (b.header.size, b.header.is_in_file):
        return False
    if not a.header.is_in_file:
        return True
    return all(
        a.part(start, min(_CHUNK, size - start)) == b.part(start, min(_CHUNK, size - start))
        for start in range(0, size, _CHUNK)
    )


def _is_moved(pair: _Pair, moves: Moves) -> bool:
    """Whether all that differs is shown to be addresses of what moved."""
    if not pair.a.is_loaded or max(pair.a.header.size, pair.b.header.size) > _LARGEST:
        return False
    is_in_file = pair.a.header.is_in_file and pair.b.header.is_in_file
    return is_in_file and follows(pair.a, pair.b, moves)


def _compare_section(pair: _Pair, location: Location) -> Iterator[Difference]:
    if pair.name == _BUILD_ID:
        yield Difference(location=location, fact="the build id differs", causes=("build-id",))
    elif pair.name.startswith(_DEBUG):
        yield _debug_difference(pair, location)
    elif not (pair.a.header.is_in_file and pair.b.header.is_in_file):
        yield Difference(location=location, fact=_reserved_fact(pair.a.header, pair.b.header))
    elif max(pair.a.header.size, pair.b.header.size) > _LARGEST:
        yield Difference(location=location, fact=_TOO_LARGE)
    else:
        yield from _compare_content(pair, location)


def _reserved_fact(a: SectionHeader, b: SectionHeader) -> str:
    if a.is_in_file or b.is_in_file:
        return (
            f"only in the {'second' if a.is_in_file else 'first'} it has no content and only "
            "reserves memory"
        )
    return f"it reserves {a.size:,} bytes; {b.size:,} in the second"


def _debug_difference(pair: _Pair, location: Location) -> Difference:
    """Debug information, with the first text in it that differs: mostly a path."""
    is_small = max(pair.a.header.size, pair.b.header.size) <= _LARGEST_DEBUG
    pairs = change_of_data(pair.a.read(), pair.b.read()).pairs if is_small else []
    one, other = pairs[0] if pairs else ("", "")
    return Difference(
        location=location,
        fact="debug information differs",
        a=quoted_bytes(one),
        b=quoted_bytes(other),
        causes=("line-information",),
    )


def _compare_content(pair: _Pair, location: Location) -> Iterator[Difference]:
    a, b = pair.a.read(), pair.b.read()
    if pair.name in _NAMES:
        yield from _compare_names(a, b, location)
    elif pair.name == _CODE:
        yield _code_difference(pair, a, b, location)
    else:
        yield from _compare_data(pair.name, a, b, location)


def _compare_data(section: str, a: bytes, b: bytes, location: Location) -> Iterator[Difference]:
    change = change_of_data(a, b)
    for one in pair_differences(change.pairs, location, "text"):
        is_compiler = section == _COMPILERS and not one.causes
        yield replace(one, causes=("host-compiler",)) if is_compiler else one
    if not change.is_all:
        yield Difference(location=location, fact=_bytes_fact(a, b))


def _compare_names(a: bytes, b: bytes, location: Location) -> Iterator[Difference]:
    texts_a, texts_b = (table.decode("utf-8", "replace").split("\0") for table in (a, b))
    pairs = differing_pairs(texts_a, texts_b)
    yield from pair_differences(pairs, location, "name")
    if not pairs:
        yield Difference(location=location, fact="the same names are in another order")


def _code_difference(pair: _Pair, a: bytes, b: bytes, location: Location) -> Difference:
    names = functions_at(pair.a, pair.b)
    fact = f"host code: {_bytes_fact(a, b)}"
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        fact += f", in {', '.join(names[:_SHOWN])}{more}"
    return Difference(location=location, fact=fact)


def _bytes_fact(a: bytes, b: bytes) -> str:
    if len(a) != len(b):
        return f"{len(a):,} bytes; {len(b):,} in the second"
    return f"{count_differing(a, b):,} of {plural(len(a), 'byte')} differ"
