"""Which GPUs a nightly run may use, and the names of their locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.system.gpu_lock import lock_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cuwheel.diagnose.facts.gpus import Driver, Gpu


def usable_gpus(driver: Driver, environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that a program started here may use.

    Only UUIDs in `CUDA_VISIBLE_DEVICES` narrow them: CUDA numbers GPUs by their speed unless
    `CUDA_DEVICE_ORDER` says otherwise, so a number doesn't say which one it is.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars

    Args:
        driver: what it answered.
        environ: of the caller.
    """
    if driver.visible == 0 or not driver.version:
        return ()
    named = [one.strip() for one in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    chosen = tuple(
        gpu
        for gpu in driver.gpus
        if any(one.startswith("GPU-") and gpu.uuid.startswith(one) for one in named)
    )
    return chosen or driver.gpus


def lock_names(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Names of their locks, in one order for everybody; without a GPU that of the machine."""
    named = {lock_name(gpu.uuid or f"gpu-{gpu.index}") for gpu in gpus}
    return tuple(sorted(named)) or (lock_name("machine"),)
