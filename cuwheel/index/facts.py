"""What a wheel is for, read from the wheel itself: CUDA, archs, drivers, C library."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cuwheel.audit.verdict import audit_wheel
from cuwheel.errors import UnsafeArchiveError
from cuwheel.system.files import new_file
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.index.entries import Entry

_FOLDER = "wheel-facts-1"  # of the cache; the number rises when the audit reads more
_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
# Names of the time before PEP 600, which says what they stand for.
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
    """Read a wheel from end to end, or take what was read of the same bytes before.

    A wheel that can't be read, or is elsewhere, has none.

    Args:
        wheel: the file; one without libraries has none either, and isn't worth the time.
        sha256: of it.
        cache: the cache's folder.
    """
    kept = _kept(sha256, cache)
    try:
        found = {name: tuple(values) for name, values in json.loads(read_bytes(kept)).items()}
        return WheelFacts(**found)
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    try:
        result = audit_wheel(wheel, target=None)
    except (UnsafeArchiveError, FileNotFoundError):
        return WheelFacts()
    facts = WheelFacts(
        cuda=result.majors,
        archs=result.archs,
        ptx=result.ptx_archs,
        drivers=tuple(driver for _, driver in result.min_driver),
    )
    keep_facts(facts, sha256, cache)
    return facts


def keep_facts(facts: WheelFacts, sha256: str, cache: Path) -> None:
    """Keep what is in a wheel, for `read_facts`: the wheel may be elsewhere then."""
    with new_file(_kept(sha256, cache)) as stream:
        stream.write(json.dumps(asdict(facts)).encode())


def _kept(sha256: str, cache: Path) -> Path:
    return cache / _FOLDER / f"{sha256}.json"


def cuda_tag(entry: Entry) -> str:
    """The CUDA release that a wheel is for, `cu130`: its version says it, or its statement.

    Empty where neither does, as for a wheel that serves several.
    """
    local = entry.version.local or ""
    if found := _LOCAL_CUDA.search(local):
        return f"cu{found[1]}"
    return f"cu{entry.toolkit.replace('.', '')}" if entry.toolkit else ""


def oldest_glibc(entry: Entry) -> str:
    """The oldest C library that a wheel's platform tags promise, `2.28`; empty where none does."""
    found = []
    for tag in entry.tags:
        if numbers := _GLIBC.match(tag.platform):
            found.append((int(numbers[1]), int(numbers[2])))
        found += [release for name, release in _OLD_GLIBC.items() if tag.platform.startswith(name)]
    return ".".join(map(str, min(found))) if found else ""


def pythons(entry: Entry) -> str:
    """The Pythons that its tags name, as people write them: `3.12`, `3.10 or newer`, `3`."""
    tags = entry.tags
    said = set()
    for tag in tags:
        digits = re.sub(r"\D", "", tag.interpreter)
        release = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        newer = " or newer" if tag.abi in {"abi3", "abi3t", "none"} and len(digits) > 1 else ""
        threads = " without GIL" if re.fullmatch(r"cp\d+t", tag.abi) else ""
        said.add(f"{release}{threads}{newer}")
    return ", ".join(sorted(said))
