"""Verdicts on the driver and the GPUs of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.diagnose.facts.machine import Driver, HostFacts
from cuwheel.check.diagnose.facts.variables import without_entry
from cuwheel.check.diagnose.verdict import Diagnosis, broken, not_examined, notes, warns, works

# nvml.h, `nvmlReturn_t`; cuda.h, `CUresult`.
_NO_PERMISSION, _NO_DRIVER, _LIBRARY_MISMATCH, _LOST = 4, 9, 18, 15
_NO_DEVICE, _CUDA_MISMATCH, _COMPAT = 100, 803, 804
# The loader's message about a file that it has found; a missing one has no folder.
_UNUSABLE = re.compile(r"(/.*)/libcuda\.so\.1: (?!cannot open shared object)")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MOUNTED = "NVIDIA_VISIBLE_DEVICES"
# Of it NVIDIA's container runtime takes which of the driver's libraries it mounts.
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_LEAST_SHARED = 1 << 30  # bytes of /dev/shm; NCCL and data loaders share memory there
_RESTART = "restart the machine, or reload the kernel module: rmmod and modprobe nvidia"
_IN_CONTAINER = (
    "start the container with its GPUs (docker run --gpus all …), which needs the NVIDIA container "
    "toolkit on the host"
)


def judge_driver(
    driver: Driver, host: HostFacts | None, environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Judge driver and GPUs.

    Args:
        host: None if it couldn't be read.
    """
    for note in driver.notes:
        yield not_examined("NVIDIA's driver", note)
    for gpu in driver.gpus:
        if gpu.fault:
            yield broken(
                "no-cuda-device",
                f"GPU {gpu.index} doesn't answer",
                gpu.fault,
                "check `dmesg | grep -i -e nvrm -e xid`; a restart brings back a lost GPU",
            )
    fault = _fault_of_driver(driver, host, environ) or _fault_of_visibility(driver, environ)
    if fault:
        yield fault
    elif driver.gpus:
        count = len(driver.gpus) if driver.visible is None else driver.visible
        of_all = f" of {len(driver.gpus)}" if count != len(driver.gpus) else ""
        newest = f", supports CUDA up to {driver.newest_cuda}" if driver.newest_cuda else ""
        yield works(f"driver {driver.version}{newest}; {plural(count, 'GPU')}{of_all} usable")
    if host and host.container and host.shared_memory < _LEAST_SHARED:
        judged = warns if driver.gpus else notes
        yield judged(
            "nccl-shm-too-small",
            f"shared memory is {show_size(host.shared_memory)}",
            "NCCL and PyTorch's data loaders use it, and containers have little by default",
            "start the container with --shm-size=8g or --ipc=host",
        )


def _fault_of_driver(
    driver: Driver, host: HostFacts | None, environ: Mapping[str, str]
) -> Diagnosis | None:
    if driver.nvml_code == _LIBRARY_MISMATCH or driver.cuda_code == _CUDA_MISMATCH:
        return broken(
            "driver-library-mismatch",
            "the driver's libraries and its kernel module are of different releases",
            driver.nvml_fault
            or f"cuInit returns {driver.cuda_code}; the module is {driver.version}",
            f"the driver was updated and the old module is still loaded: {_RESTART}",
        )
    if driver.nvml_code == _NO_PERMISSION:
        return broken(
            "permission-denied",
            "the current user has no permission to use the GPU",
            f"NVML reports: {driver.nvml_fault}",
            "check the owner and mode of /dev/nvidia*; on a cluster, request a GPU in the job",
        )
    if driver.cuda_code == _COMPAT:
        return broken(
            "driver-too-old",
            "the libcuda of a newer driver is loaded, which this GPU doesn't support",
            f"{driver.libcuda} is a forward compatibility library, which only data center "
            "GPUs support",
            "remove cuda-compat from LD_LIBRARY_PATH, and update the driver",
        )
    if driver.is_stub:
        return broken(
            "libcuda-driver-missing",
            "programs load the toolkit's stub instead of the driver's library",
            f"the loader finds {driver.libcuda}",
            "remove the folder `stubs` from LD_LIBRARY_PATH and /etc/ld.so.conf.d",
            _without(driver.libcuda, environ),
        )
    if unusable := _UNUSABLE.match(driver.cuda_fault):
        return broken(
            "libcuda-driver-missing",
            "the loader finds a libcuda.so.1 that it can't use",
            driver.cuda_fault,
            f"remove {unusable[1]} from LD_LIBRARY_PATH, or the file"
            if _without(f"{unusable[1]}/libcuda.so.1", environ)
            else f"remove {unusable[1]}/libcuda.so.1, and install the driver; into a container its "
            "runtime mounts the host's",
            _without(f"{unusable[1]}/libcuda.so.1", environ),
        )
    return _missing(driver, host, environ) if driver.cuda_fault else None


def _without(library: str, environ: Mapping[str, str]) -> str:
    """Return the command that takes a library's folder from LD_LIBRARY_PATH; empty: isn't there."""
    change = without_entry(environ, "LD_LIBRARY_PATH", library.rpartition("/")[0])
    return change.command if change else ""


def _missing(driver: Driver, host: HostFacts | None, environ: Mapping[str, str]) -> Diagnosis:
    """Judge a machine without libcuda: the driver is missing, or only hidden."""
    why = driver.cuda_fault or driver.nvml_fault or "the loader finds no libcuda.so.1"
    if host and host.is_wsl:
        fix = "add /usr/lib/wsl/lib to /etc/ld.so.conf.d and run ldconfig"
        if not driver.has_wsl_library:
            fix = "install NVIDIA's driver in Windows (not in Linux) and run `wsl --update`"
        return broken("libcuda-driver-missing", "WSL doesn't show its GPU", why, fix)
    chosen = environ.get(_MOUNTED)
    if host and host.container and chosen in {"void", "none", ""}:
        return warns(
            "docker-no-gpu-runtime",
            f"{_MOUNTED}={chosen} keeps the host's GPUs out of this container",
            f"NVIDIA's container runtime reads it at the start and mounts no GPU then; here {why}",
            f"start the container with -e {_MOUNTED}=all, or with numbers of GPUs, and with --gpus "
            "all; what is set here comes too late",
        )
    parts = {part.strip() for part in environ.get(_CAPABILITIES, "all").split(",")}
    if host and host.container and parts.isdisjoint({"all", "compute"}):
        return warns(
            "docker-no-gpu-runtime",
            f"{_CAPABILITIES}={environ[_CAPABILITIES]} keeps CUDA's driver out of this container",
            f"libcuda belongs to the capability compute, which it doesn't name; here {why}",
            f"start the container with -e {_CAPABILITIES}=compute,utility and --gpus all; what is "
            "set here comes too late",
        )
    if host and host.container and (driver.version or driver.devices):
        return broken(
            "docker-no-gpu-runtime",
            "this container was started without the GPUs of its host",
            f"the host has a driver or a GPU, but here {why}",
            _IN_CONTAINER,
        )
    if driver.version or driver.devices:
        return broken(
            "libcuda-driver-missing",
            "the GPU's driver isn't installed, or only in part",
            f"{plural(driver.devices, 'NVIDIA GPU')} on the bus, kernel module "
            f"{driver.version or 'not loaded'}, and {why}",
            "install NVIDIA's driver (`nvidia-driver` of the distribution), then restart",
        )
    fix = "nothing, if packages are only built or installed here"
    return notes(
        "no-cuda-device",
        "this machine has no NVIDIA GPU",
        f"none on the bus, no driver: {why}",
        f"{fix}; to run them, {_IN_CONTAINER}" if host and host.container else fix,
    )


def _fault_of_visibility(driver: Driver, environ: Mapping[str, str]) -> Diagnosis | None:
    chosen = environ.get(_VISIBLE)
    if driver.cuda_code is None:
        return None
    here = f"the GPUs here are 0 to {len(driver.gpus) - 1}"
    if driver.visible:
        names = [item.strip() for item in chosen.split(",")] if chosen else []
        if driver.visible >= len(names):
            return None
        return warns(
            "no-cuda-device",
            f"{_VISIBLE}={chosen} shows {driver.visible} of the {len(names)} GPUs that it names",
            f'CUDA ignores all from the first unknown one on: "{names[driver.visible]}"',
            f"name GPUs that exist: {here}",
        )
    if chosen is None or not driver.gpus:
        no_device = " (no device)" * (driver.cuda_code == _NO_DEVICE)
        return broken(
            "no-cuda-device",
            "CUDA programs see no GPU",
            f"cuInit returns {driver.cuda_code}{no_device}",
            "check `nvidia-smi` and `dmesg | grep -i nvrm`; with MIG enabled, create instances",
        )
    return broken(
        "no-cuda-device",
        f"{_VISIBLE} hides every GPU",
        f"it is {chosen!r}, and {here}",
        f"unset {_VISIBLE}, or set it to numbers or names of these",
    )
