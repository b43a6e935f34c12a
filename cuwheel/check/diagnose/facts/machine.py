"""This machine: its GPUs and their driver (NVML or the kernel), and its system."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cuwheel.base import free_memory, limits
from cuwheel.base.paths import script
from cuwheel.base.system import machine
from cuwheel.base.system.process import output_within
from cuwheel.base.system.quantities import show_size
from cuwheel.base.system.regular_files import read_bytes, read_text
from cuwheel.base.system.versions import version_key
from cuwheel.check.diagnose.facts.probe import run_probe
from cuwheel.check.diagnose.facts.variables import find_culprit
from cuwheel.check.linkage.installed_loader import LIBRARY_FOLDERS

_PROBE = script("check/diagnose/probes/driver.py")
_LEAST = 8 << 20  # bytes; less is left of a full file system, or of its quota
_TIME_LIMIT = 10.0  # seconds; without nvidia-persistenced `cuInit` takes several
_STUB_LIBRARY = 34  # CUDA_ERROR_STUB_LIBRARY, cuda.h
_GLIBCXX = re.compile(rb"GLIBCXX_(3\.4(?:\.\d+)?)\0")
_CONTAINERS = {"/.dockerenv": "Docker", "/run/.containerenv": "Podman"}
_MOUNTS = Path("/proc/self/mounts")
_ESCAPED = re.compile(r"\\([0-7]{3})")  # a space in the path of a mount point: proc(5)
# Libraries of the system that wheels leave out, with Debian's packages (packages.debian.org).
OF_SYSTEM = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libglx0",
    "libICE.so.6": "libice6",
    "libOpenCL.so.1": "ocl-icd-libopencl1",
    "libOpenGL.so.0": "libopengl0",
    "libSM.so.6": "libsm6",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXrender.so.1": "libxrender1",
    "libatomic.so.1": "libatomic1",
    "libcrypt.so.1": "libcrypt1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libelf.so.1": "libelf1",
    "libexpat.so.1": "libexpat1",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgomp.so.1": "libgomp1",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libibverbs.so.1": "libibverbs1",
    "libnuma.so.1": "libnuma1",
    "librdmacm.so.1": "librdmacm1",
    "libsndfile.so.1": "libsndfile1",
    "libxcb.so.1": "libxcb1",
}


@dataclass(frozen=True, kw_only=True)
class DriverGpu:
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

    SCHEMA_NAME: ClassVar[str] = "Gpu"
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
        asked: who answered: `NVML`, `the kernel`, or nobody.
        version: `580.159.04`; empty without one.
        newest_cuda: the newest CUDA release that it supports, `13.0`.
        gpus: those that the driver has, or the kernel sees.
        visible: how many a CUDA program sees; None where that couldn't be asked.
        visible_uuids: theirs, in CUDA's order; of a MIG instance, its GPU's.
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
    gpus: tuple[DriverGpu, ...] = ()
    visible: int | None = None
    visible_uuids: tuple[str, ...] = ()
    nvml_fault: str = ""
    nvml_code: int = 0
    cuda_fault: str = ""
    cuda_code: int | None = None
    libcuda: str = ""
    is_stub: bool = False
    devices: int = 0
    has_wsl_library: bool = False
    notes: tuple[str, ...] = ()

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The known compute capabilities of the GPUs, the oldest first."""
        return tuple(sorted({gpu.capability for gpu in self.gpus if gpu.capability}, key=int))


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """The machine around the GPUs.

    Attributes:
        system: of /etc/os-release, `Debian GNU/Linux 12 (bookworm)`.
        kernel: `6.1.0-18-amd64`.
        architecture: `x86_64`.
        glibc: `2.36`; empty on a system with another C library.
        glibcxx: the newest symbol version of the system's libstdc++, `3.4.30`.
        container: its kind, empty outside.
        is_wsl: Linux on Windows.
        memory, free_memory: bytes, limits of containers counted.
        cores: those that may be used.
        free_disk: bytes free where a build would work.
        shared_memory: bytes of /dev/shm.
        has_device_files: /dev/nvidia* are there.
        noexec: the folder for temporary files if no program can run from it; else empty.
    """

    system: str
    kernel: str
    architecture: str
    glibc: str
    glibcxx: str
    container: str
    is_wsl: bool
    memory: int
    free_memory: int
    cores: int
    free_disk: int
    shared_memory: int
    has_device_files: bool
    noexec: str = ""


def find_driver(environ: Mapping[str, str]) -> Driver:
    """Read NVML and libcuda in a process of their own, then the kernel.

    Args:
        environ: of the caller; `LD_LIBRARY_PATH` and CUDA's own variables count.
    """
    answer, _, fault = run_probe([sys.executable, "-I", _PROBE], environ, _TIME_LIMIT)
    code, libcuda = answer.get("cuda_code"), answer.get("libcuda", "")
    cuda = answer.get("cuda") or answer.get("nvml_cuda")  # 13000, of `cuDriverGetVersion`
    asked, version = "NVML", answer.get("driver", "")
    gpus = tuple(map(_gpu_of, answer.get("gpus", ())))
    if not version:
        asked = "the kernel"
        gpus, version = tuple(_kernel_gpus()), machine.driver_version() or ""
    return Driver(
        asked=asked if version else "",
        version=version,
        newest_cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        gpus=gpus,
        visible=answer.get("visible"),
        visible_uuids=tuple(answer.get("visible_uuids", ())),
        nvml_fault=answer.get("nvml_fault", ""),
        nvml_code=answer.get("nvml_code", 0),
        cuda_fault=answer.get("cuda_fault", ""),
        cuda_code=code,
        libcuda=libcuda,
        is_stub=code == _STUB_LIBRARY or "/stubs/" in libcuda,
        devices=sum(map(_is_gpu, Path("/sys/bus/pci/devices").glob("*"))),
        has_wsl_library=Path("/usr/lib/wsl/lib/libcuda.so.1").exists(),
        notes=(_why_silent(fault, environ),) if fault else (),
    )


def _why_silent(fault: str, environ: Mapping[str, str]) -> str:
    """Return why the probe gave no answer: a variable keeps programs from running, or else."""
    note = f"NVIDIA's libraries didn't answer: {fault}"
    command = [sys.executable, "-I", "-c", "import ctypes, json"]
    if change := find_culprit(lambda one: not output_within(command, _TIME_LIMIT, one)[1], environ):
        note += f"; without {change.text} the probe runs"
    return note


def _gpu_of(answer: Mapping[str, Any]) -> DriverGpu:
    instances = tuple(part.get("name", "unknown") for part in answer.get("instances", ()))
    fault = f"NVML's error {answer['fault']}" if answer.get("fault") else ""
    return DriverGpu(**{"name": "unknown", **answer, "instances": instances, "fault": fault})


def _kernel_gpus() -> Iterator[DriverGpu]:
    for index, path in enumerate(sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))):
        pairs = [line.partition(":") for line in _read(path).splitlines()]
        answer = {name.strip(): value.strip() for name, _, value in pairs}
        yield DriverGpu(
            index=index, name=answer.get("Model", "unknown"), uuid=answer.get("GPU UUID", "")
        )


def _is_gpu(device: Path) -> bool:
    vendor, kind = (_read(device / name).strip() for name in ("vendor", "class"))
    return vendor == "0x10de" and kind.startswith("0x03")  # NVIDIA, display controller


def read_host_facts(folder: Path, environ: Mapping[str, str]) -> HostFacts:
    """Read the facts from the system's files."""
    memory, free = total_and_free_memory()
    shared = os.statvfs("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - only measured
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.MULTILINE)
    libraries = (Path(folder, "libstdc++.so.6") for folder in LIBRARY_FOLDERS)
    libstdcxx = next(filter(Path.exists, libraries), None)
    return HostFacts(
        system=system[1] if system else "Linux",
        kernel=platform.release(),
        architecture=platform.machine(),
        glibc=_glibc(),
        glibcxx=newest_glibcxx(libstdcxx) if libstdcxx else "",
        container=_container(),
        is_wsl="microsoft" in _read("/proc/version").lower(),
        memory=memory,
        free_memory=free,
        cores=machine.usable_cores(environ),
        free_disk=machine.free_disk(folder),
        shared_memory=shared.f_blocks * shared.f_frsize if shared else 0,
        has_device_files=any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists(),
        noexec=_noexec(environ.get("TMPDIR") or "/tmp"),  # noqa: S108 - only looked at
    )


def _noexec(folder: str) -> str:
    try:
        return folder if os.statvfs(folder).f_flag & os.ST_NOEXEC else ""
    except OSError:
        return ""


def newest_glibcxx(library: Path) -> str:
    """Return the newest symbol version of a libstdc++, `3.4.30`; empty if it can't be read."""
    try:
        versions = _GLIBCXX.findall(read_bytes(library, limit=limits.LIBRARY))
    except OSError:
        return ""
    return max((version.decode() for version in versions), key=version_key, default="")


def total_and_free_memory() -> tuple[int, int]:
    """Return total and free bytes at the tightest level (cgroup, machine); 0 if unknown."""
    try:
        levels = free_memory.read_memory().levels
    except OSError:
        return 0, 0
    total = min(level.total + level.reserve for level in levels)
    return total, max(0, min(level.free + level.reserve for level in levels))


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):
        return ""


def _container() -> str:
    marked = (name for path, name in _CONTAINERS.items() if Path(path).exists())
    match = re.search(r"docker|kubepods|containerd|libpod|lxc|crio", _read("/proc/1/cgroup"))
    return next(marked, match[0] if match else "")


def _read(path: Path | str) -> str:
    try:
        return read_text(Path(path), errors="replace")
    except OSError:
        return ""


def full_file_system(folder: Path) -> str:
    """Return what its file system lacks for files in a folder, `its file system …`; empty: none."""
    disk = shutil.disk_usage(folder)
    if disk.total and disk.free < _LEAST:  # some file systems count nothing
        return f"its file system has {show_size(disk.free)} free"
    return "its file system has no inode free" if machine.lacks_inodes(folder) else ""


def mount_without_programs(path: Path) -> Path | None:
    """Return the mount point of a file if programs and libraries there can't be executed (noexec).

    None: they can, or the file isn't there.
    """
    try:
        real = path.resolve(strict=True)
        if not os.statvfs(real).f_flag & os.ST_NOEXEC:
            return None
        lines = read_text(_MOUNTS, errors="replace").splitlines()
    except (OSError, RuntimeError):  # Python 3.12 and older
        return None
    points = (Path(_ESCAPED.sub(_unescape, line.split()[1])) for line in lines if " " in line)
    around = [point for point in points if real.is_relative_to(point)]
    return max(around, key=lambda point: len(point.parts), default=Path(real.anchor))


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
