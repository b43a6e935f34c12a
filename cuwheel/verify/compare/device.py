"""How the device code of two files differs: which element, which kernel, in what."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import replace
from itertools import chain, zip_longest
from typing import IO, TYPE_CHECKING, NamedTuple

from cuwheel.binaries.cubin import read_cubin
from cuwheel.binaries.device_code import DeviceCodeError, code_of_element, elements_of, find_fatbins
from cuwheel.binaries.elf_image import ElfFormatError
from cuwheel.binaries.ptx import read_ptx
from cuwheel.verify.compare.bytes import quoted_bytes
from cuwheel.verify.compare.cubin import compare_cubins
from cuwheel.verify.compare.differences import Difference, Location
from cuwheel.verify.compare.ptx import compare_ptx
from cuwheel.verify.compare.text_causes import causes_of_options, causes_of_texts, stable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.binaries.device_code import Element, Kind
    from cuwheel.binaries.fatbin import Fatbin
    from cuwheel.verify.compare.differences import CauseKey


_NAMES_READ = 200  # elements of one kind and arch that are paired by the names in them


class DeviceFile(NamedTuple):
    """A file with device code, open.

    Attributes:
        stream: the file.
        fatbins: its fat binaries.
        sections: of an ELF file, the name of the section that each of them lies in.
    """

    stream: IO[bytes]
    fatbins: tuple[Fatbin, ...]
    sections: tuple[str, ...] = ()


def open_device_file(stream: IO[bytes]) -> DeviceFile:
    """Look for the fat binaries of a file."""
    return DeviceFile(stream, find_fatbins(stream))


def beside_fatbins(file: DeviceFile, start: int, end: int, most: int) -> bytes:
    """What of a part of a file is in no fat binary, and pads none; no more than `most` bytes."""
    inside = [(one.offset, one.padded_end) for one in file.fatbins if start <= one.offset < end]
    pieces, offset = [], start
    for begin, behind in (*inside, (end, end)):
        file.stream.seek(offset)
        piece = file.stream.read(max(0, min(begin - offset, most)))
        pieces.append(piece)
        offset, most = behind, most - len(piece)
    return b"".join(pieces)


def compare_device_code(a: DeviceFile, b: DeviceFile, location: Location) -> Iterator[Difference]:
    """Every difference between the fat binaries of two files.

    Args:
        a: the first file.
        b: the second.
        location: the member; a fat binary's number is counted in the first file, or in the second
            where only that has it.
    """
    first, second = (list(elements_of(file.stream, file.fatbins)) for file in (a, b))
    yield from _compare_order(first, second, location)
    archs_a, archs_b = ({one.name for one in elements} for elements in (first, second))
    for one, other in _paired(first, second, a, b):
        if one and other:
            yield from _compare(one, other, a, b, _at(location, one, a))
        elif one:
            is_missing = one.name not in archs_b
            yield _only_in(_at(location, one, a), "the first", is_arch_missing=is_missing)
        elif other:
            is_missing = other.name not in archs_a
            yield _only_in(_at(location, other, b), "the second", is_arch_missing=is_missing)


def compare_element_code(
    kind: Kind, arch: str, a: bytes, b: bytes, location: Location
) -> Iterator[Difference]:
    """Compare two pieces of unpacked device code: cubins, or PTX."""
    if a == b:
        return
    try:
        if kind == "SASS":
            yield from compare_cubins(read_cubin(a), read_cubin(b), arch, location)
        else:
            yield from compare_ptx(read_ptx(a), read_ptx(b), location)
    except (ElfFormatError, struct.error) as problem:
        yield Difference(location=location, fact=f"the code differs, and can't be read: {problem}")


def _at(location: Location, element: Element, file: DeviceFile) -> Location:
    section = file.sections[element.fatbin - 1] if file.sections else ""
    return replace(location, section=section, fatbin=element.fatbin, code=element.name)


def _compare_order(a: list[Element], b: list[Element], location: Location) -> Iterator[Difference]:
    digests_a, digests_b = ([one.digest for one in elements] for elements in (a, b))
    if digests_a != digests_b and sorted(digests_a) == sorted(digests_b):
        yield Difference(location=location, fact="the same device code is in another order")


def _only_in(location: Location, where: str, *, is_arch_missing: bool) -> Difference:
    """Where the other wheel has nothing for that arch, it was built for other archs."""
    causes: tuple[CauseKey, ...] = ("archs",) if is_arch_missing else ()
    return Difference(location=location, fact=f"only {where} has it", causes=causes)


def _paired(
    a: list[Element], b: list[Element], file_a: DeviceFile, file_b: DeviceFile
) -> Iterator[tuple[Element | None, Element | None]]:
    """Elements that belong together: of one kind and arch, and with the same functions in them.

    Pairs with equal bytes are left out where nothing else is noted of them.
    """
    for name in dict.fromkeys(one.name for one in (*a, *b)):
        same_a, same_b = ([one for one in side if one.name == name] for side in (a, b))
        rest_a, rest_b = _without_equal(same_a, same_b)
        if len(rest_a) == len(rest_b) == 1:
            yield rest_a[0], rest_b[0]
            continue
        yield from _paired_by_functions(_named(rest_a, file_a), _named(rest_b, file_b))


def _paired_by_functions(
    a: dict[tuple[str, ...], list[Element]], b: dict[tuple[str, ...], list[Element]]
) -> Iterator[tuple[Element | None, Element | None]]:
    """Those with the same functions, and then what is left, in its order."""
    for names in [names for names in a if names in b]:
        count = min(len(a[names]), len(b[names]))
        yield from zip(a[names][:count], b[names][:count], strict=True)
        a[names], b[names] = a[names][count:], b[names][count:]
    yield from zip_longest(*(sorted(chain.from_iterable(rest.values())) for rest in (a, b)))


def _without_equal(a: list[Element], b: list[Element]) -> tuple[list[Element], list[Element]]:
    """Those that have no equal on the other side."""
    waiting: defaultdict[tuple[object, ...], list[Element]] = defaultdict(list)
    for one in b:
        waiting[_identity(one)].append(one)
    rest = []
    for one in a:
        if equal := waiting[_identity(one)]:
            equal.pop(0)
        else:
            rest.append(one)
    return rest, sorted(one for elements in waiting.values() for one in elements)


def _identity(element: Element) -> tuple[object, ...]:
    return element.digest, element.source, element.options, element.packing


def _named(elements: Iterable[Element], file: DeviceFile) -> dict[tuple[str, ...], list[Element]]:
    """Elements by the functions that are in them, as far as paths don't decide their names."""
    found: dict[tuple[str, ...], list[Element]] = {}
    for index, element in enumerate(elements):
        names = _functions_of(element, file) if index < _NAMES_READ else ()
        found.setdefault(names, []).append(element)
    return found


def _functions_of(element: Element, file: DeviceFile) -> tuple[str, ...]:
    try:
        code = code_of_element(file.stream, element)
        if element.kind == "SASS":
            names = read_cubin(code).kernels
        else:
            names = tuple(read_ptx(code).functions) if element.kind == "PTX" else ()
    except (DeviceCodeError, ElfFormatError, struct.error):
        return ()
    return tuple(sorted(map(stable_name, names)))


def _compare(
    one: Element, other: Element, a: DeviceFile, b: DeviceFile, location: Location
) -> Iterator[Difference]:
    yield from _compare_headers(one, other, location)
    if one.digest == other.digest:
        return
    if one.kind not in ("PTX", "SASS"):
        yield Difference(location=location, fact="the code differs; its format isn't known")
        return
    try:
        codes = code_of_element(a.stream, one), code_of_element(b.stream, other)
    except DeviceCodeError as problem:
        yield Difference(location=location, fact=str(problem))
        return
    if codes[0] == codes[1]:
        fact = f"equal code is packed in another way: {one.packing}, {one.size} bytes"
        yield Difference(
            location=location,
            fact=f"{fact}; {other.packing}, {other.size} bytes",
            causes=("fatbin-compression",),
        )
    yield from compare_element_code(one.kind, one.arch, *codes, location)


def _compare_headers(one: Element, other: Element, location: Location) -> Iterator[Difference]:
    """The texts that fatbinary notes beside the code."""
    if one.source != other.source:
        causes = causes_of_texts(one.source, other.source)
        if not (one.source and other.source):
            causes = ("line-information",)  # without it no source is noted
        yield Difference(
            location=location, fact="the recorded source differs", a=one.source, b=other.source,
            causes=causes,
        )  # fmt: skip
    if one.options != other.options:
        texts = [text.options.decode("ascii", "replace").strip() for text in (one, other)]
        yield Difference(
            location=location,
            fact="the recorded options differ",
            a=quoted_bytes(texts[0]),
            b=quoted_bytes(texts[1]),
            causes=causes_of_options(*texts) if one.kind == "PTX" else (),
        )
