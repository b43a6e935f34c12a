"""Who supplies a library, and which rpath reaches it: facts that repairing and auditing share."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from cuwheel.components import COMPONENTS, Component, fits

# They come with the driver and have to fit it, so no wheel may hold them. Names from the file list
# in NVIDIA's driver README, chapter "Installed Components".
_DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1")

# Libraries of CUDA and of the NVIDIA packages around it, under their own name or under the one
# that auditwheel gives (`libcudart-1a2b3c4d.so.13.0.96`). Names from the wheels that cuda-toolkit
# pins, and from nvidia-cudnn, -nccl, -cusparselt, -nvshmem, cutensor and cuquantum.
_CUDA_LIBRARY = re.compile(
    r"lib(cuda|cudart|cublas|cublasLt|cublasMp|nvblas|cudnn\w*|cufft|cufftw|cufftMp|cufile\w*"
    r"|cupti|curand|cusolver|cusolverMg|cusolverMp|cusparse|cusparseLt|cutensor\w*|custatevec"
    r"|cudensitymat|npp\w+|nccl|nvfatbin|nvJitLink|nvjpeg|nvrtc|nvrtc-builtins|nvshmem\w*"
    r"|nvtx3interop|nvToolsExt|nvvm)(-[0-9a-f]{8})?\.so(\.\d+)*"
)
_GRAFTED_NAME = re.compile(r"-[0-9a-f]{8}(?=\.so)")

_ORIGIN = re.compile(r"(\$ORIGIN|\$\{ORIGIN\})(?=/|$)")


def component_of(soname: str, cuda: int | None = None) -> Component | None:
    """The component that supplies a library, or None.

    Args:
        soname: as `DT_NEEDED` says it.
        cuda: the target's major release of CUDA; None: of any.
    """
    for component in COMPONENTS:
        if fits(component, cuda) and any(
            fnmatchcase(soname, pattern) for pattern in component.sonames
        ):
            return component
    return None


def is_cuda_library(name: str) -> bool:
    """Whether a soname or file name is one of NVIDIA's own libraries, of any major version."""
    return _CUDA_LIBRARY.fullmatch(name) is not None


def is_from_driver(soname: str) -> bool:
    """Whether the GPU's driver brings this library."""
    return soname in _DRIVER_LIBRARIES


def is_grafted(member: str) -> bool:
    """Whether a file in a wheel is a library that belongs to another wheel.

    A package may well have a `libtorchaudio.so` of its own, so names of a framework's libraries
    count only where auditwheel puts what it copies in: a `.libs` folder.
    """
    path = PurePosixPath(member)
    if is_cuda_library(path.name):
        return True
    copied = path.parts[0].endswith(".libs")
    return copied and component_of(_GRAFTED_NAME.sub("", path.name)) is not None


def relative_entry(library: PurePosixPath, folder: PurePosixPath) -> str:
    """The rpath entry with which a library finds a folder, both relative to site-packages."""
    way = os.path.relpath(folder, library.parent)
    return "$ORIGIN" if way == "." else f"$ORIGIN/{way}"


def resolve_entry(library: PurePosixPath, entry: str) -> PurePosixPath | None:
    """The folder below site-packages that an rpath entry of a library leads to.

    Returns:
        None where it is absolute, depends on anything but the library's place, or leads out of
        site-packages.
    """
    if not _ORIGIN.match(entry):
        return None
    way = os.path.normpath(_ORIGIN.sub(f"{library.parent}", entry, count=1))
    leaves = way == ".." or way.startswith(("../", "/")) or "$" in way
    return None if leaves else PurePosixPath(way)
