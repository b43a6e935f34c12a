"""Comparison of the device code of two files: elements, kernels, what differs in them."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import IO, NamedTuple

from cuwheel.base.formats.binaries.device_code import (
    DeviceCodeError,
    Element,
    Kind,
    code_of_element,
    elements_of,
    find_fatbins,
)
from cuwheel.base.formats.binaries.elf_image import ElfFormatError
from cuwheel.base.formats.binaries.fatbin import Fatbin
from cuwheel.base.formats.binaries.kernel_code import read_cubin, read_ptx
from cuwheel.publish.rebuild.compare.differences import CauseKey, DifferenceData, Location
from cuwheel.publish.rebuild.compare.kernels import compare_cubins, compare_ptx
from cuwheel.publish.rebuild.compare.texts import (
    causes_of_options,
    causes_of_texts,
    quoted_bytes,
)


class OpenDeviceFile(NamedTuple):
    """A file with device code, open.

    Attributes:
        sections: of an ELF file, the name of the section that each of them lies in.
    """

    stream: IO[bytes]
    fatbins: tuple[Fatbin, ...]
    sections: tuple[str, ...] = ()


def open_device_file(
    stream: IO[bytes], section_at: Callable[[int], str] | None = None
) -> OpenDeviceFile:
    """Look for the fat binaries of a file.

    Args:
        section_at: returns the section at an offset of an ELF file.
    """
    fatbins = find_fatbins(stream)
    names = tuple(section_at(fatbin.offset) for fatbin in fatbins) if section_at else ()
    return OpenDeviceFile(stream, fatbins, names)


def beside_fatbins(file: OpenDeviceFile, start: int, end: int, most: int) -> bytes:
    """Return what of a file's part is in no fat binary and pads none, up to `most` bytes."""
    inside = [
        (fatbin.offset, fatbin.padded_end)
        for fatbin in file.fatbins
        if start <= fatbin.offset < end
    ]
    pieces, offset = [], start
    for begin, behind in (*inside, (end, end)):
        file.stream.seek(offset)
        piece = file.stream.read(max(0, min(begin - offset, most)))
        pieces.append(piece)
        offset, most = behind, most - len(piece)
    return b"".join(pieces)


def compare_device_code(
    a: OpenDeviceFile, b: OpenDeviceFile, location: Location
) -> Iterator[DifferenceData]:
    """Compare the fat binaries of two files.

    Args:
        location: the member; a fat binary's number is counted in the first file, or in the second
            where only that has it.
    """
    first, second = (list(elements_of(file.stream, file.fatbins)) for file in (a, b))
    digests_a, digests_b = ([part.digest for part in elements] for elements in (first, second))
    if digests_a != digests_b and sorted(digests_a) == sorted(digests_b):
        yield location.differs("the same device code is in another order")
    archs_a, archs_b = ({element.name for element in elements} for elements in (first, second))
    for element_a, element_b in _paired(first, second):
        if element_a and element_b:
            yield from _compare(element_a, element_b, a, b, _at(location, element_a, a))
        elif element_a:
            is_missing = element_a.name not in archs_b
            yield _only_in(_at(location, element_a, a), "the first", is_arch_missing=is_missing)
        elif element_b:
            is_missing = element_b.name not in archs_a
            yield _only_in(_at(location, element_b, b), "the second", is_arch_missing=is_missing)


def compare_element_code(
    kind: Kind, arch: str, a: bytes, b: bytes, location: Location
) -> Iterator[DifferenceData]:
    """Compare two pieces of unpacked device code: cubins, or PTX."""
    if a == b:
        return
    try:
        if kind == "SASS":
            yield from compare_cubins(read_cubin(a), read_cubin(b), arch, location)
        else:
            yield from compare_ptx(read_ptx(a), read_ptx(b), location)
    except (ElfFormatError, struct.error) as problem:
        yield location.differs(f"the code differs, and can't be read: {problem}")


def _at(location: Location, element: Element, file: OpenDeviceFile) -> Location:
    section = file.sections[element.fatbin - 1] if file.sections else ""
    return replace(location, section=section, fatbin=element.fatbin, code=element.name)


def _only_in(location: Location, where: str, *, is_arch_missing: bool) -> DifferenceData:
    """Return the difference of an element that one file has; another arch is a known cause."""
    causes: tuple[CauseKey, ...] = ("archs",) if is_arch_missing else ()
    return location.differs(f"only {where} has it", causes=causes)


def _paired(a: list[Element], b: list[Element]) -> Iterator[tuple[Element | None, Element | None]]:
    """Pair elements of one kind and arch in their order.

    Pairs with equal bytes are left out where nothing else is noted of them.
    """
    for name in dict.fromkeys(element.name for element in (*a, *b)):
        same_a, same_b = ([element for element in side if element.name == name] for side in (a, b))
        yield from zip_longest(*_without_equal(same_a, same_b))


def _without_equal(a: list[Element], b: list[Element]) -> tuple[list[Element], list[Element]]:
    """Return the elements of each file that have no equal in the other."""
    waiting: defaultdict[tuple[object, ...], list[Element]] = defaultdict(list)
    for element in b:
        waiting[_identity(element)].append(element)
    rest = []
    for element in a:
        if equal := waiting[_identity(element)]:
            equal.pop(0)
        else:
            rest.append(element)
    return rest, sorted(element for elements in waiting.values() for element in elements)


def _identity(element: Element) -> tuple[object, ...]:
    return element.digest, element.source, element.options, element.packing


def _compare(
    element_a: Element, element_b: Element, a: OpenDeviceFile, b: OpenDeviceFile, location: Location
) -> Iterator[DifferenceData]:
    yield from _compare_headers(element_a, element_b, location)
    if element_a.digest == element_b.digest:
        return
    if element_a.kind not in ("PTX", "SASS"):
        yield location.differs("the code differs; its format isn't known")
        return
    try:
        codes = code_of_element(a.stream, element_a), code_of_element(b.stream, element_b)
    except DeviceCodeError as problem:
        yield location.differs(str(problem))
        return
    if codes[0] == codes[1]:
        fact = f"equal code is packed in another way: {element_a.packing}, {element_a.size} bytes"
        yield location.differs(
            f"{fact}; {element_b.packing}, {element_b.size} bytes", causes=("fatbin-compression",)
        )
    yield from compare_element_code(element_a.kind, element_a.arch, *codes, location)


def _compare_headers(a: Element, b: Element, location: Location) -> Iterator[DifferenceData]:
    """Compare the texts that fatbinary records next to the code."""
    if a.source != b.source:
        causes = causes_of_texts(a.source, b.source)
        if not (a.source and b.source):
            causes = ("line-information",)  # without it no source is recorded
        yield location.differs("the recorded source differs", a=a.source, b=b.source, causes=causes)
    if a.options != b.options:
        texts = [text.options.decode("ascii", "replace").strip() for text in (a, b)]
        yield location.differs(
            "the recorded options differ",
            a=quoted_bytes(texts[0]),
            b=quoted_bytes(texts[1]),
            causes=causes_of_options(*texts) if a.kind == "PTX" else (),
        )
