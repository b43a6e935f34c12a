"""Whether the kernels that ran are the wheel's: their names looked up in its device code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from cuwheel.binaries.archs import DeviceCode, runs_on
from cuwheel.binaries.cubin import read_cubin
from cuwheel.binaries.device_code import (
    DeviceCodeError,
    code_of_element,
    elements_of,
    find_fatbins,
)
from cuwheel.binaries.elf import ElfFormatError, is_elf
from cuwheel.binaries.ptx import read_ptx

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import IO

    from cuwheel.binaries.device_code import Element

SHOWN = 3  # kernels that a report names


def kernels_of(libraries: Iterable[Path], capability: str) -> frozenset[str]:
    """Names of all kernels that some libraries hold for a GPU, as the compiler mangled them.

    Args:
        libraries: files.
        capability: of the GPU, `90`.
    """
    found: set[str] = set()
    for path in libraries:
        with path.open("rb") as stream:
            if is_elf(stream):
                found |= _kernels_in(stream, capability)
    return frozenset(found)


def code_of_libraries(libraries: Iterable[Path]) -> DeviceCode:
    """The archs that some libraries hold code for."""
    sass: set[str] = set()
    ptx: set[str] = set()
    for path in libraries:
        with path.open("rb") as stream:
            if not is_elf(stream):
                continue
            for element in elements_of(stream, find_fatbins(stream)):
                {"SASS": sass, "PTX": ptx}.get(element.kind, set()).add(element.arch)
    return DeviceCode(sass=tuple(sorted(sass)), ptx=tuple(sorted(ptx)))


def own_share(kernels: Iterable[dict[str, Any]], own: frozenset[str]) -> float | None:
    """The share of the time on the GPU that kernels of the wheel took; None where nothing ran.

    Args:
        kernels: as CUPTI gave them: name, count, nanoseconds.
        own: from `kernels_of`.
    """
    kernels = list(kernels)
    total = sum(one["nanoseconds"] for one in kernels)
    mine = sum(one["nanoseconds"] for one in kernels if one["name"] in own)
    return mine / total if total else None


def longest(kernels: Iterable[dict[str, Any]]) -> tuple[tuple[str, float], ...]:
    """The kernels that took longest, with their share of the time."""
    times: Counter[str] = Counter()
    for one in kernels:
        times[one["name"]] += one["nanoseconds"]
    total = times.total() or 1
    return tuple((name, nanoseconds / total) for name, nanoseconds in times.most_common(SHOWN))


def gpu_shares(kernels: Iterable[dict[str, Any]], count: int) -> tuple[float, ...]:
    """The share of the time on all GPUs that each of them took; empty where nothing ran.

    Args:
        kernels: as CUPTI gave them, each with the number of its GPU.
        count: GPUs.
    """
    times: Counter[int] = Counter()
    for one in kernels:
        times[one["gpu"]] += one["nanoseconds"]
    total = times.total()
    return tuple(times[number] / total for number in range(count)) if total else ()


def _kernels_in(stream: IO[bytes], capability: str) -> set[str]:
    found: set[str] = set()
    for element in elements_of(stream, find_fatbins(stream)):
        if _runs(element, capability):
            found |= _kernels_of_element(stream, element)
    return found


def _runs(element: Element, capability: str) -> bool:
    if element.kind == "SASS":
        return bool(runs_on(DeviceCode(sass=(element.arch,)), capability))
    return element.kind == "PTX" and bool(runs_on(DeviceCode(ptx=(element.arch,)), capability))


def _kernels_of_element(stream: IO[bytes], element: Element) -> set[str]:
    """Names of one element; of a damaged one none, as the audit tells of it."""
    try:
        code = code_of_element(stream, element)
        if element.kind == "SASS":
            return set(read_cubin(code).kernels)
        return set(read_ptx(code).functions)
    except (DeviceCodeError, ElfFormatError):
        return set()
