"""The facts of a wheel, read from the wheel itself: CUDA, archs, drivers, C library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.system.files import write_atomically
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.workspace.serialization import read_record, to_json
from cuwheel.check.audit.verdict import audit_wheel

_FOLDER = "wheel-facts-2"  # of the cache; the number rises when the audit reads more
_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
# Names before PEP 600, which defines them.
_OLD_GLIBC = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}
_LOCAL_CUDA = re.compile(r"\bcu(\d{2,3})(?!\d)")


@dataclass(frozen=True, kw_only=True)
class WheelFacts:
    """What is in a wheel.

    Attributes:
        cuda: the CUDA majors that its libraries work with.
        archs: compute capabilities of its machine code, without dot.
        ptx: likewise of its PTX.
        drivers: the oldest Linux driver for each of `cuda`, as far as it is known.
    """

    cuda: tuple[int, ...] = ()
    archs: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()


def read_facts(wheel: Path, sha256: str, cache: Path) -> WheelFacts:
    """Audit a wheel for its facts, or read the kept ones of the same bytes.

    A wheel that can't be read, or is elsewhere, has none.
    """
    if kept := read_record(_path(sha256, cache), WheelFacts):
        return kept
    try:
        result = audit_wheel(wheel)
    except (UnsafeArchiveError, FileNotFoundError):
        return WheelFacts()
    facts = WheelFacts(
        cuda=result.majors,
        archs=result.code.sass,
        ptx=result.code.ptx,
        drivers=tuple(driver for _, driver in result.min_driver),
    )
    keep_facts(facts, sha256, cache)
    return facts


def keep_facts(facts: WheelFacts, sha256: str, cache: Path) -> None:
    """Keep the facts of a wheel for `read_facts`: the wheel may be elsewhere then."""
    write_atomically(_path(sha256, cache), to_json(facts))


def _path(sha256: str, cache: Path) -> Path:
    return cache / _FOLDER / f"{sha256}.json"


def cuda_tag(entry: Entry) -> str:
    """Return the CUDA release of a wheel by its version or its statement, `cu130`.

    Empty where neither names one, as for a wheel that serves several.
    """
    if match := _LOCAL_CUDA.search(entry.version.local or ""):
        return f"cu{match[1]}"
    return f"cu{entry.toolkit.replace('.', '')}" if entry.toolkit else ""


def oldest_glibc(entry: Entry) -> str:
    """Return the oldest C library of a wheel's platform tags, `2.28`; empty: none is named."""
    releases = []
    for tag in entry.tags:
        if numbers := _GLIBC.match(tag.platform):
            releases.append((int(numbers[1]), int(numbers[2])))
        releases += [glibc for name, glibc in _OLD_GLIBC.items() if tag.platform.startswith(name)]
    return ".".join(map(str, min(releases))) if releases else ""


def pythons(entry: Entry) -> str:
    """Return the Pythons of a wheel's tags as text: `3.12`, `3.10 or newer`, `3`."""
    names = set()
    for tag in entry.tags:
        digits = re.sub(r"\D", "", tag.interpreter)
        release = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        newer = " or newer" if tag.abi in {"abi3", "abi3t", "none"} and len(digits) > 1 else ""
        threads = " without GIL" if re.fullmatch(r"cp\d+t", tag.abi) else ""
        names.add(f"{release}{threads}{newer}")
    return ", ".join(sorted(names))
