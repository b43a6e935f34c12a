"""The facts of a wheel, read from the wheel itself: CUDA, archs, drivers, C library."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.formats.binaries.archs import arch_names
from cuwheel.base.system.files import write_atomically
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.workspace.serialization import read_record, to_json
from cuwheel.check.audit.verdict import AuditResult, read_wheel_facts

_FOLDER = "wheel-facts-4"  # of the cache; the number rises when the audit reads more
_LOCAL_CUDA = re.compile(r"\bcu(\d{2,3})(?!\d)")


@dataclass(frozen=True, kw_only=True)
class WheelFacts:
    """What is in a wheel.

    Attributes:
        cuda: the CUDA majors that its libraries work with.
        archs: compute capabilities of its machine code, without dot.
        ptx: likewise of its PTX.
        drivers: the oldest Linux driver for each of `cuda`, as far as it is known.
        torch: releases of PyTorch that have all symbols of its libraries; empty: it uses none.
        grid: libraries with code, and the archs of each, `sm_90`, `PTX 90`; empty: all have the
            same.
    """

    cuda: tuple[int, ...] = ()
    archs: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    grid: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def runs_with(self) -> dict[str, object]:
        """What is known, for programs."""
        return {name: value for name, value in asdict(self).items() if value}


def read_facts(wheel: Path, sha256: str, cache: Path) -> WheelFacts:
    """Return the facts of a wheel: the kept ones of the same bytes, or it is read.

    A wheel that can't be read, or is elsewhere, has none.
    """
    if kept := read_record(_path(sha256, cache), WheelFacts):
        return kept
    try:
        result = read_wheel_facts(wheel)
    except (UnsafeArchiveError, FileNotFoundError):
        return WheelFacts()
    facts = WheelFacts(
        cuda=result.majors,
        archs=result.code.sass,
        ptx=result.code.ptx,
        drivers=tuple(driver for _, driver in result.min_driver),
        torch=result.torch or (),
        grid=_grid(result),
    )
    keep_facts(facts, sha256, cache)
    return facts


def _grid(result: AuditResult) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if len({code for _, code in result.codes}) < 2:  # noqa: PLR2004 - each would say the same
        return ()
    return tuple((name, arch_names(code)) for name, code in result.codes)


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
