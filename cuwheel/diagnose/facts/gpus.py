"""The GPUs of this machine and their driver, asked in three ways, each with a time limit."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.errors import CommandFailedError
from cuwheel.standalone import script
from cuwheel.system import machine
from cuwheel.system.process import run, which
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_PROBE = script("probes/driver.py")
_TIME_LIMIT = 10.0  # seconds; without nvidia-persistenced `cuInit` takes several
_SMI_TIME_LIMIT = 5.0  # seconds
_SMI_FIELDS = (
    "index",
    "name",
    "uuid",
    "compute_cap",
    "memory.total",
    "driver_version",
    "mig.mode.current",
)
_MIB = 1 << 20
_PCI = Path("/sys/bus/pci/devices")
_NVIDIA, _DISPLAY = "0x10de", "0x03"  # vendor, and the start of the class of display controllers
_PROC = Path("/proc/driver/nvidia")
_STUB_LIBRARY = 34  # CUDA_ERROR_STUB_LIBRARY, cuda.h
_WSL = Path("/usr/lib/wsl/lib/libcuda.so.1")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU.

    Attributes:
        index: as `nvidia-smi` counts.
        name: `NVIDIA H200`.
        uuid: `GPU-…`; empty where it isn't known.
        capability: without dot, `90`; empty where it isn't known.
        memory: bytes; 0 where it isn't known.
        mig: whether it is cut into instances.
        instances: names of those.
        fault: why nothing could be asked.
    """

    index: int
    name: str
    uuid: str = ""
    capability: str = ""
    memory: int = 0
    mig: bool = False
    instances: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """NVIDIA's driver, as far as it answers.

    Attributes:
        asked: who answered: `NVML`, `nvidia-smi`, `the kernel`, or nobody.
        version: `580.159.04`; empty without one.
        newest_cuda: the newest CUDA release that it supports, `13.0`.
        gpus: those that the driver has, or the kernel sees.
        visible: how many a CUDA program sees; None where that couldn't be asked.
        nvml_fault: NVML's words where it doesn't answer.
        nvml_code: its error number, `nvmlReturn_t`.
        cuda_fault: the loader's words where there is no libcuda.
        cuda_code: what `cuInit` gave, `CUresult`.
        libcuda: the file that the loader took.
        is_stub: that is the toolkit's stub, or says so.
        devices: NVIDIA's controllers on the PCI bus, whether they have a driver or not.
        has_wsl_library: libcuda of Windows is where WSL puts it.
        notes: what couldn't be asked, and why.
    """

    asked: str = ""
    version: str = ""
    newest_cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    visible: int | None = None
    nvml_fault: str = ""
    nvml_code: int = 0
    cuda_fault: str = ""
    cuda_code: int | None = None
    libcuda: str = ""
    is_stub: bool = False
    devices: int = 0
    has_wsl_library: bool = False
    notes: tuple[str, ...] = ()


def find_driver(environ: Mapping[str, str]) -> Driver:
    """Ask NVML and libcuda in a process of their own, then `nvidia-smi`, then the kernel.

    Args:
        environ: of the caller; `PATH`, `LD_LIBRARY_PATH` and CUDA's own variables count.
    """
    notes: list[str] = []
    answer = _ask_libraries(environ, notes)
    code, libcuda = answer.get("cuda_code"), answer.get("libcuda", "")
    asked, version = "NVML", answer.get("driver", "")
    gpus = tuple(map(_gpu_of, answer.get("gpus", ())))
    if not version:
        asked = "nvidia-smi"
        gpus, version = _ask_smi(environ, notes)
    if not version:
        asked = "the kernel"
        gpus, version = tuple(_kernel_gpus()), machine.driver_version() or ""
    return Driver(
        asked=asked if version else "",
        version=version,
        newest_cuda=_release(answer.get("cuda") or answer.get("nvml_cuda") or 0),
        gpus=gpus,
        visible=answer.get("visible"),
        nvml_fault=answer.get("nvml_fault", ""),
        nvml_code=answer.get("nvml_code", 0),
        cuda_fault=answer.get("cuda_fault", ""),
        cuda_code=code,
        libcuda=libcuda,
        is_stub=code == _STUB_LIBRARY or "/stubs/" in libcuda,
        devices=sum(1 for _ in _pci_devices()),
        has_wsl_library=_WSL.exists(),
        notes=tuple(notes),
    )


def _ask_libraries(environ: Mapping[str, str], notes: list[str]) -> dict[str, Any]:
    """What the probe reported, all of it or what came before it hung or crashed."""
    with tempfile.TemporaryDirectory(prefix="cuwheel-") as folder:
        written = Path(folder, "answer.json")
        done = run(
            [sys.executable, "-I", _PROBE, written], env=environ, timeout=_TIME_LIMIT, check=False
        )
        try:
            answer: dict[str, Any] = json.loads(read_text(written))
        except (OSError, ValueError):
            answer = {}
    if not answer.get("complete"):
        notes.append(f"NVIDIA's libraries didn't answer: {_end_of(done.status, _TIME_LIMIT)}")
    return answer


def _end_of(status: int, limit: float) -> str:
    if status == -9:  # noqa: PLR2004 - SIGKILL, by `process.run`
        return f"no answer within {limit:.0f} s"
    return f"signal {-status}" if status < 0 else f"status {status}"


def _gpu_of(answer: Mapping[str, Any]) -> Gpu:
    code = answer.get("fault")
    return Gpu(
        index=answer["index"],
        name=answer.get("name", "unknown"),
        uuid=answer.get("uuid", ""),
        capability=answer.get("capability", ""),
        memory=answer.get("memory", 0),
        mig=answer.get("mig", False),
        instances=tuple(one.get("name", "unknown") for one in answer.get("instances", ())),
        fault=f"NVML's error {code}" if code else "",
    )


def _ask_smi(environ: Mapping[str, str], notes: list[str]) -> tuple[tuple[Gpu, ...], str]:
    program = which("nvidia-smi", environ.get("PATH", os.defpath))
    if program is None:
        return (), ""
    query = [program, f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = run(query, env=environ, timeout=_SMI_TIME_LIMIT, check=False)
    except CommandFailedError as error:
        notes.append(f"{program} failed: {error.why}")
        return (), ""
    rows = [[cell.strip() for cell in line.split(",")] for line in done.output.splitlines()]
    valid = [row for row in rows if len(row) == len(_SMI_FIELDS) and row[0].isdigit()]
    if done.status or not valid:
        said = (done.output.strip().splitlines() or ["nothing"])[0][:100]
        notes.append(
            f"{program} failed: {_end_of(done.status, _SMI_TIME_LIMIT)}, it printed: {said}"
        )
        return (), ""
    return tuple(map(_gpu_of_row, valid)), valid[0][5]


def _gpu_of_row(row: list[str]) -> Gpu:
    index, name, uuid, capability, memory, _, mig = row
    return Gpu(
        index=int(index),
        name=name,
        uuid=uuid,
        capability=capability.replace(".", "") if re.fullmatch(r"\d+\.\d", capability) else "",
        memory=int(memory) * _MIB if memory.isdigit() else 0,
        mig=mig == "Enabled",
    )


def _kernel_gpus() -> Iterator[Gpu]:
    for index, path in enumerate(sorted(_PROC.glob("gpus/*/information"))):
        try:
            pairs = [line.partition(":") for line in read_text(path, errors="replace").splitlines()]
        except OSError:
            continue
        answer = {name.strip(): value.strip() for name, _, value in pairs}
        yield Gpu(index=index, name=answer.get("Model", "unknown"), uuid=answer.get("GPU UUID", ""))


def _pci_devices() -> Iterator[Path]:
    for device in _PCI.glob("*"):
        try:
            vendor, kind = (read_text(device / name).strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAY):
            yield device


def _release(number: int) -> str:
    """`13.0` of 13000, as `cuDriverGetVersion` counts; empty of 0."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""
