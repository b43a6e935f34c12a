"""Which GPUs take which device code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuwheel.fatbin import DeviceCode


def runs_on(code: DeviceCode, capability: str) -> str:
    """How code gets onto a GPU: `SASS`, `PTX`; empty: not at all.

    Machine code runs on its own major release from its own minor on, that of `90a` there only,
    that of `100f` on its family; PTX on anything newer ("CUDA C++ Programming Guide", chapter
    "Compute Capabilities"; "NVCC", chapter "GPU Compilation").

    Args:
        code: archs, `90`, `90a`.
        capability: of the GPU, `90`.
    """
    if any(_takes(arch, capability) for arch in code.sass):
        return "SASS"
    plain = [arch for arch in code.ptx if arch.isdigit()]
    exact = [arch for arch in code.ptx if arch.rstrip("af") == capability]
    return "PTX" if exact or any(int(arch) <= int(capability) for arch in plain) else ""


def _takes(arch: str, capability: str) -> bool:
    number = arch.rstrip("af")
    if arch.endswith("a"):
        return number == capability
    return number[:-1] == capability[:-1] and int(number) <= int(capability)


def describe_code(code: DeviceCode) -> str:
    """`sm_80 sm_90 compute_90 (PTX)`."""
    names = [f"sm_{arch}" for arch in code.sass]
    return " ".join(names + [f"compute_{arch} (PTX)" for arch in code.ptx])
