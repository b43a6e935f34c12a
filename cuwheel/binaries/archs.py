"""Which GPUs take which device code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def runs_on(code: DeviceCode, capability: str) -> str:
    """How code gets onto a GPU: `SASS`, `PTX`; empty: not at all.

    Machine code runs on its own major release from its own minor on; PTX on anything newer. Both
    of `90a` run there only, and both of `100f` on its family, which is the rest of its major
    release ("CUDA C++ Programming Guide", chapter "Compute Capabilities"; "NVCC", chapter "GPU
    Compilation"; nvcc 13.5 makes sm_100, sm_103 and sm_107 of compute_100f, and of compute_120f
    sm_120 and sm_121).

    Args:
        code: archs, `90`, `90a`.
        capability: of the GPU, `90`.
    """
    if any(_is_sass_for(arch, capability) for arch in code.sass):
        return "SASS"
    return "PTX" if any(_is_ptx_for(arch, capability) for arch in code.ptx) else ""


def _is_sass_for(arch: str, capability: str) -> bool:
    number = arch.rstrip("af")
    if arch.endswith("a"):
        return number == capability
    return number[:-1] == capability[:-1] and int(number) <= int(capability)


def _is_ptx_for(arch: str, capability: str) -> bool:
    return _is_sass_for(arch, capability) if arch[-1] in "af" else int(arch) <= int(capability)


def describe_code(code: DeviceCode) -> str:
    """`sm_80 sm_90 compute_90 (PTX) lto_90 (LTO-IR) tile_100 (Tile IR)`."""
    names = [f"sm_{arch}" for arch in code.sass]
    names += [f"compute_{arch} (PTX)" for arch in code.ptx]
    names += [f"lto_{arch} (LTO-IR)" for arch in code.lto]
    return " ".join(names + [f"tile_{arch} (Tile IR)" for arch in code.tile])


@dataclass(frozen=True, kw_only=True)
class DeviceCode:
    """Archs of device code, sorted: `("80", "90", "90a")`.

    Attributes:
        sass: those with machine code.
        ptx: those with PTX, which newer GPUs can compile for themselves.
        lto: those with code for a link at run time (`-code=lto_80`).
        tile: those with Tile IR (nvcc 13.5, `-enable-tile`).
    """

    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    lto: tuple[str, ...] = ()
    tile: tuple[str, ...] = ()


def sort_archs(archs: Iterable[str]) -> tuple[str, ...]:
    """Archs without repetition, oldest GPU first: `90` before `90a` before `100`."""
    return tuple(sorted(set(archs), key=lambda arch: (int(arch.rstrip("af")), arch)))


def arch_suffix(flags: int) -> str:
    """What the flags of an element put behind its arch: `a` of sm_90a, `f` of sm_100f."""
    if flags & _FLAG_ARCH_SPECIFIC:
        return "a"
    return "f" if flags & _FLAG_FAMILY_SPECIFIC else ""


def is_arch(text: str) -> bool:
    """Whether a text has the form of a compute capability: `90`, `90a`, `100f`."""
    return re.fullmatch("[0-9]+[af]?", text) is not None


def sorted_archs(given: Sequence[str]) -> tuple[str, ...]:
    """In order; what isn't written as an arch is preflight's to report."""
    if all(map(is_arch, given)):
        return sort_archs(given)
    return tuple(given)


_FLAG_ARCH_SPECIFIC = 1 << 20  # sm_90a
_FLAG_FAMILY_SPECIFIC = 1 << 21  # sm_100f
