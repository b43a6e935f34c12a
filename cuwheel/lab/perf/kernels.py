"""Kernels of a wheel and of a run: which there are, whose took how long, and their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from cuwheel.base.formats.binaries.archs import DeviceCode, runs_on
from cuwheel.base.formats.binaries.device_code import (
    DeviceCodeError,
    Element,
    code_of_element,
    elements_of,
    find_fatbins,
)
from cuwheel.base.formats.binaries.elf import ElfFormatError, is_elf
from cuwheel.base.formats.binaries.kernel_code import read_cubin, read_ptx
from cuwheel.base.system.regular_files import open_file

SHOWN = 3  # kernels that a report names
_LONGEST = 80  # characters
_PART = re.compile(r"(\d+)")


def show_kernel(mangled: str) -> str:
    """Return a kernel's name without its arguments and those of its template, and cut it.

    Reads the source names at the beginning of an Itanium mangled name (C++ ABI, 5.1.2).
    """
    parts, rest = [], mangled.removeprefix("_Z")
    is_nested = rest.startswith("N")
    rest = rest.removeprefix("N")
    while mangled.startswith("_Z") and (match := _PART.match(rest)):
        size = int(match[1])
        parts.append(rest[match.end() : match.end() + size])
        rest = rest[match.end() + size :]
        if not is_nested:
            break
    name = "::".join(part for part in parts if not part.startswith("_GLOBAL__N")) or mangled
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def show_kernels(mangled: Iterable[str]) -> tuple[str, ...]:
    """Return the names of kernels, each once."""
    return tuple(dict.fromkeys(map(show_kernel, mangled)))


def kernels_of(libraries: Iterable[Path], capability: str) -> frozenset[str]:
    """Return the mangled names of all kernels in some libraries for a GPU, such as `90`."""
    names: set[str] = set()
    for stream, element in _elements(libraries):
        if _runs(element, capability):
            names |= _kernels_of_element(stream, element)
    return frozenset(names)


def code_of_libraries(libraries: Iterable[Path]) -> DeviceCode:
    """Return the archs for which some libraries hold code."""
    archs: dict[str, set[str]] = {"SASS": set(), "PTX": set()}
    for _, element in _elements(libraries):
        archs.setdefault(element.kind, set()).add(element.arch)
    return DeviceCode(sass=tuple(sorted(archs["SASS"])), ptx=tuple(sorted(archs["PTX"])))


def _elements(libraries: Iterable[Path]) -> Iterator[tuple[IO[bytes], Element]]:
    """Yield each element of device code in some libraries, with the stream of its file."""
    for path in libraries:
        with open_file(path) as stream:
            if is_elf(stream):
                for element in elements_of(stream, find_fatbins(stream)):
                    yield stream, element


def own_share(kernels: Iterable[dict[str, Any]], own_kernels: frozenset[str]) -> float | None:
    """Return the share of the GPU time of the wheel's own kernels; None where nothing ran."""
    kernels = list(kernels)
    total = sum(kernel["nanoseconds"] for kernel in kernels)
    wheels = sum(kernel["nanoseconds"] for kernel in kernels if kernel["name"] in own_kernels)
    return wheels / total if total else None


def longest(kernels: Iterable[dict[str, Any]]) -> tuple[tuple[str, float], ...]:
    """Return the kernels that took longest, with their share of the time."""
    times: Counter[str] = Counter()
    for kernel in kernels:
        times[kernel["name"]] += kernel["nanoseconds"]
    total = times.total() or 1
    return tuple((name, nanoseconds / total) for name, nanoseconds in times.most_common(SHOWN))


def gpu_shares(kernels: Iterable[dict[str, Any]], count: int) -> tuple[float, ...]:
    """Return each GPU's share of the time on all of them; empty where nothing ran."""
    times: Counter[int] = Counter()
    for kernel in kernels:
        times[kernel["gpu"]] += kernel["nanoseconds"]
    total = times.total()
    return tuple(times[number] / total for number in range(count)) if total else ()


def _runs(element: Element, capability: str) -> bool:
    if element.kind == "SASS":
        return bool(runs_on(DeviceCode(sass=(element.arch,)), capability))
    return element.kind == "PTX" and bool(runs_on(DeviceCode(ptx=(element.arch,)), capability))


def _kernels_of_element(stream: IO[bytes], element: Element) -> set[str]:
    """Return the kernels' names; none of a damaged element, which the audit reports."""
    try:
        code = code_of_element(stream, element)
        if element.kind == "SASS":
            return set(read_cubin(code).kernels)
        return set(read_ptx(code).functions)
    except (DeviceCodeError, ElfFormatError):
        return set()
