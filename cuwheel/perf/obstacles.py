"""What keeps a GPU from giving a figure that counts: no code for it, errors, others on it, heat."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.binaries.archs import describe_code, runs_on
from cuwheel.cuda.suppliers import DRIVER_SONAME
from cuwheel.errors import GpuError, UsageError
from cuwheel.perf.records import names_of
from cuwheel.system.quantities import plural, show_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cuwheel.binaries.archs import DeviceCode
    from cuwheel.perf.gpu_state import GpuState
    from cuwheel.perf.records import Clocks, GpuFacts, PerfRun

HEAT = ("heat", "thermal (hardware)", "hardware slowdown", "power brake")  # of `Clocks.slowed_by`


def check_has_driver(name: str) -> None:
    """See that there is a driver, before anything is installed.

    Args:
        name: of what is to be measured.

    Raises:
        GpuError: there is none.
    """
    try:
        ctypes.CDLL(DRIVER_SONAME)
    except OSError:
        raise GpuError(
            f"{name} can't be measured: NVIDIA's driver isn't installed here",
            why=f"the loader finds no {DRIVER_SONAME}",
            fix="nox -s diagnose shows what this machine has; start a container with `--gpus "
            "all` (docker) or `--device nvidia.com/gpu=all` (podman); without a GPU, `nox "
            "-s smoke -- TARGET` still imports the wheel",
        ) from None


def driver_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders that a caller names for the driver's library, beside those of the system.

    Args:
        environ: of the caller; what counts is `LD_LIBRARY_PATH`.
    """
    named = environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    folders = (Path(name) for name in named if Path(name).is_absolute())
    return tuple(dict.fromkeys(one for one in folders if (one / DRIVER_SONAME).is_file()))


def check_code(code: DeviceCode, gpu: GpuFacts, name: str) -> str:
    """See that a wheel holds code that this GPU takes.

    Args:
        code: of its libraries.
        gpu: that it is measured on.
        name: of the wheel, for the message.

    Returns:
        A note where the driver compiles it at the first use; else nothing.

    Raises:
        GpuError: it holds code for other GPUs only.
    """
    if not (code.sass or code.ptx):
        return ""
    how = runs_on(code, gpu.capability)
    if not how:
        raise GpuError(
            f"{name} has no code for {gpu.name}",
            why=f"that is sm_{gpu.capability}; the wheel contains {describe_code(code)}",
            fix=f"build it for this GPU: -- --arch {gpu.capability}",
        )
    if how == "PTX":
        return (
            f"the wheel contains {describe_code(code)}: the driver compiles its PTX for "
            f"sm_{gpu.capability} at the first call"
        )
    return ""


def check_health(state: GpuState, gpu: GpuFacts) -> None:
    """See that the memory of a GPU can be trusted.

    Raises:
        GpuError: it had errors that couldn't be corrected.
    """
    if state.uncorrected:
        raise GpuError(
            f"{gpu.name} has had {plural(state.uncorrected, 'memory error')} that ECC couldn't "
            "correct since the driver was loaded",
            why="results may be wrong with any wheel",
            fix="nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER shows them; ask an "
            "administrator to reset or replace the GPU",
        )


def check_alone(state: GpuState, gpu: GpuFacts, *, is_shared: bool) -> None:
    """See that nobody else computes on a GPU whose times are to be judged.

    Raises:
        GpuError: somebody does, and it isn't said that this is so.
    """
    if state.others and not is_shared:
        raise GpuError(
            f"other processes use {gpu.name}: times can't be compared",
            why=_processes(state),
            fix="wait until it is free (`nvidia-smi`), choose another GPU with "
            "CUDA_VISIBLE_DEVICES=1, or compare anyway: -- --shared-gpu",
        )


def check_comparable(
    past: PerfRun, gpus: Sequence[GpuFacts], recipe: str, clock: str, name: str
) -> None:
    """See that an earlier run was sound, of this package, on such GPUs, by such a clock.

    Args:
        past: the earlier run.
        gpus: of this one.
        recipe: of this one.
        clock: of this one.
        name: of the earlier run's file.

    Raises:
        UsageError: it was another, or wrong.
    """
    facts = (
        ("of", past.recipe, recipe),
        ("on", past.gpu_names, names_of(gpus)),
        ("with driver", past.gpu.driver, gpus[0].driver),
        ("by", past.clock, clock),
    )
    faults = [
        f"it was measured {link} {then or 'none'}, this run is {link} {now or 'none'}"
        for link, then, now in facts
        if then != now
    ]
    faults += [f"it is wrong: {fault}" for fault in past.faults]
    if faults:
        raise UsageError(
            f"{name} can't be compared with this run",
            why="\n".join(faults),
            fix="compare with the wheel itself, which is then measured here: --against WHEEL",
        )


def notes_of(state: GpuState, clocks: Clocks) -> Iterator[str]:
    """What a reader of the figures should know.

    Args:
        state: how the GPU was.
        clocks: while all was measured.
    """
    if state.unread:
        yield f"clocks, ECC errors and other processes aren't known: {state.unread}"
    if state.mig_slice:
        yield (
            "the GPU is a MIG slice: rates are those of the slice, and other slices may affect them"
        )
    if state.others:
        yield f"other processes used the GPU during the run: {_processes(state)}"
    for reason in clocks.slowed_by:
        least, _, most = clocks.sm
        yield f"clocks were limited by {reason}: SM {least} to {most} MHz"


def _processes(state: GpuState) -> str:
    shown = [f"process {pid} with {show_size(size)}" for pid, size in state.others[:3]]
    more = len(state.others) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
