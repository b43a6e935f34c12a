"""Rules of which GPUs run which device code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# GPUs of the generations that lie between others.
_BETWEEN = (("70", "72", "75"), ("80", "86", "89"), ("90",), ("100", "103", "107"))
# Machine code for these and for others' GPUs don't run on each other ("CUDA C++ Programming
# Guide", section "Binary Compatibility").
JETSON_ARCHS = ("53", "62", "72", "87", "101", "110")


def runs_on(code: DeviceCode, capability: str) -> str:
    """Return how a GPU runs code: `SASS`, `PTX`; empty: not at all.

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
    is_ptx = any(
        _is_sass_for(arch, capability) if arch[-1] in "af" else int(arch) <= int(capability)
        for arch in code.ptx
    )
    return "PTX" if is_ptx else ""


def gaps_of(code: DeviceCode) -> list[str]:
    """Return the generations between the oldest and the newest of the code that don't run it."""
    oldest, newest = code.sass[0], code.sass[-1]
    return [
        f"{gpus[0][:-1]}.x"
        for gpus in _BETWEEN
        if int(oldest.rstrip("af")) < int(gpus[0]) < int(newest.rstrip("af"))
        and not any(runs_on(code, gpu) for gpu in gpus)
    ]


def archs_for(gpus: Iterable[str], declared: Sequence[str]) -> tuple[str, ...]:
    """Return the declared archs whose machine code some GPUs run, the nearest for each GPU.

    Empty where a GPU has none: then all of them are needed.
    """
    chosen = []
    for gpu in gpus:
        fitting = [arch for arch in declared if _is_sass_for(arch, gpu)]
        if not fitting:
            return ()
        chosen.append(max(fitting, key=lambda arch: (int(arch.rstrip("af")), arch)))
    return sort_archs(chosen)


def _is_sass_for(arch: str, capability: str) -> bool:
    number = arch.rstrip("af")
    if arch.endswith("a"):
        return number == capability
    return number[:-1] == capability[:-1] and int(number) <= int(capability)


def describe_code(code: DeviceCode) -> str:
    """Return `sm_80 sm_90 compute_90 (PTX) lto_90 (LTO-IR) tile_100 (Tile IR)`."""
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
        ptx_version: the newest version of PTX's ISA, (8, 5); (0, 0) without PTX.
        is_zstd: machine code is compressed with zstd.
        is_debug: machine code is compiled without optimisation (`nvcc -G`).
    """

    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    lto: tuple[str, ...] = ()
    tile: tuple[str, ...] = ()
    ptx_version: tuple[int, int] = field(default=(0, 0), compare=False)
    is_zstd: bool = field(default=False, compare=False)
    is_debug: bool = field(default=False, compare=False)


def arch_names(code: DeviceCode) -> tuple[str, ...]:
    """Return what code is for: `sm_90`, `PTX 90`."""
    return (*(f"sm_{arch}" for arch in code.sass), *(f"PTX {arch}" for arch in code.ptx))


def sort_archs(archs: Iterable[str]) -> tuple[str, ...]:
    """Return archs without repetition, oldest GPU first: `90` before `90a` before `100`."""
    return tuple(sorted(set(archs), key=lambda arch: (int(arch.rstrip("af")), arch)))


def arch_suffix(flags: int) -> str:
    """Return the suffix of an element's arch by its flags: `a` of sm_90a, `f` of sm_100f."""
    if flags & _FLAG_ARCH_SPECIFIC:
        return "a"
    return "f" if flags & _FLAG_FAMILY_SPECIFIC else ""


def is_arch(text: str) -> bool:
    """Return True if a text has the form of a compute capability: `90`, `90a`, `100f`."""
    return re.fullmatch("[0-9]+[af]?", text) is not None


def sorted_archs(archs: Sequence[str]) -> tuple[str, ...]:
    """Return archs in order; unchanged where one is malformed, which preflight reports."""
    return sort_archs(archs) if all(map(is_arch, archs)) else tuple(archs)


_FLAG_ARCH_SPECIFIC = 1 << 20  # sm_90a
_FLAG_FAMILY_SPECIFIC = 1 << 21  # sm_100f
