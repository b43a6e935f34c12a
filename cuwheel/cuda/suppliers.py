"""Who supplies a library, and which rpath leads to it: facts that repairing and auditing share."""

from __future__ import annotations

import functools
import os
import re
from fnmatch import fnmatchcase, translate
from pathlib import PurePosixPath

from cuwheel.cuda.components import COMPONENTS, KNOWN_COMPONENTS, Component, fits

DRIVER_SONAME = "libcuda.so.1"  # what CUDA's programs link of the driver

# They come with the driver and have to fit it, so no wheel may hold them: what the Linux driver
# 580.159.04 has installed on a machine with an H200, and what libnvidia-container looks for of
# older ones (its `nvc_info.c`). The driver's README, chapter "Installed Components", lists each.
_DRIVER_LIBRARY = re.compile(
    r"lib(cuda|cudadebugger|nvcuvid|nvoptix|vdpau_nvidia|(EGL|GLX|GLESv1_CM|GLESv2)_nvidia"
    r"|nvidia-(allocator|cfg|compiler|eglcore|encode|fatbinaryloader|fbc|glcore|glsi|glvkspirv"
    r"|gpucomp|ifr|ml|nvvm|opencl|opticalflow|pkcs11|pkcs11-openssl3|ptxjitcompiler|rtcore|tls))"
    r"\.so(\.\d+)+"
)

# Libraries of CUDA and of the NVIDIA packages around it, under their own name or under the one
# that auditwheel gives (`libcudart-1a2b3c4d.so.13.0.96`), or the scripts of PyTorch's wheels
# (`libcudart.3eda8113.so.13` in torchvision 0.29.2). Names from the wheels that
# `cuwheel.cuda.nvidia_wheels` and `cuwheel.cuda.foreign_wheels` describe.
_CUDA_LIBRARY = re.compile(
    r"lib(cuda|cudart|cublas|cublasLt|cublas[mM]p|nvblas|cudnn\w*|cudss\w*|cufft|cufftw|cufftMp"
    r"|cufile\w*|cupauliprop|cupti|curand|cusolver|cusolverMg|cusolverMp|cusparse|cusparseLt"
    r"|custabilizer|custatevec|cutensor\w*|cudensitymat|npp\w+|nccl|nvfatbin|nvinfer\w*|nvJitLink"
    r"|nvjpeg|nvjpeg2k|nvonnxparser|nvperf_host|nvperf_target|nvrtc|nvrtc-builtins|nvshmem\w*"
    r"|nvtiff|nvtx3interop|nvToolsExt|nvvm)([-.][0-9a-f]{8})?\.so(\.\d+)*"
)

# Libraries of AMD's ROCm and of Intel's oneAPI, of which nothing is judged here. Names from what
# bitsandbytes 0.49.1 needs for them, from AMD's list "ROCm libraries" and from Intel's of what its
# compilers' programs need.
_OTHER_ACCELERATOR = re.compile(
    r"lib(amdhip64|amd_comgr|hsa-runtime64|MIOpen|migraphx\w*|rccl"
    r"|hip(blas|blaslt|dnn|fft|rand|rtc|rtc-builtins|solver|sparse|sparselt|tensor)"
    r"|roc(alution|blas|fft|m_smi64|profiler\w*|rand|solver|sparse|tracer64|tx64)"
    r"|sycl|svml|imf|intlc|irng|ccl|ze_loader|ze_intel_gpu|ur_loader|mkl_\w+)"
    r"(-[0-9a-f]{8})?\.so(\.\d+)*"
)
_GRAFTED_NAME = re.compile(r"[-.][0-9a-f]{8}(?=\.so)")

_ORIGIN = re.compile(r"(\$ORIGIN|\$\{ORIGIN\})(?=/|$)")


def component_of(soname: str, cuda: int | None = None) -> Component | None:
    """The component that supplies a library, one that recipes can link, or None.

    Args:
        soname: as `DT_NEEDED` says it.
        cuda: the target's major release of CUDA; None: of any.
    """
    if not _any_component().match(soname):
        return None
    return next((found for found in COMPONENTS if fits(found, cuda) and _has(found, soname)), None)


def components_of(soname: str) -> tuple[Component, ...]:
    """Every component that may supply a library; a soname may be the same in two CUDA majors.

    Those that recipes can link come first; the others are what wheels of others need.
    """
    return tuple(component for component in KNOWN_COMPONENTS if _has(component, soname))


@functools.cache
def _any_component() -> re.Pattern[str]:
    """The sonames of all components at once: most of a machine's libraries are nobody's here."""
    return re.compile("|".join(translate(one) for found in COMPONENTS for one in found.sonames))


def _has(component: Component, soname: str) -> bool:
    return any(fnmatchcase(soname, pattern) for pattern in component.sonames)


def is_cuda_library(name: str) -> bool:
    """Whether a soname or file name is one of NVIDIA's own libraries, of any major version."""
    return _CUDA_LIBRARY.fullmatch(name) is not None


def is_from_driver(soname: str) -> bool:
    """Whether the GPU's driver brings this library."""
    return _DRIVER_LIBRARY.fullmatch(soname) is not None


def is_other_accelerator(soname: str) -> bool:
    """Whether a library belongs to another maker's accelerator: nothing is known of it here."""
    return _OTHER_ACCELERATOR.fullmatch(soname) is not None


def name_before_graft(file: str) -> str:
    """`libcudart.so.13` of the name that auditwheel gives a copy, `libcudart-1a2b3c4d.so.13`."""
    return _GRAFTED_NAME.sub("", file)


def component_of_copy(file: str, cuda: int | None = None) -> Component | None:
    """The component of a copied file, `libcufft-1a2b3c4d.so.12.0.0.61` of `libcufft.so.12`."""
    name = name_before_graft(file)
    while ".so" in name:
        for component in components_of(name):
            if fits(component, cuda):
                return component
        name = name.rpartition(".")[0]
    return None


def stem_of(file: str) -> str:
    """`libgomp` of a library's file name, also of a copy's: `libgomp-1a2b3c4d.so.1.0.0`."""
    return name_before_graft(file).partition(".so")[0]


def is_grafted(member: str) -> bool:
    """Whether a file in a wheel is a library that belongs to another wheel.

    A package may well have a `libtorchaudio.so` of its own, so names of a framework's libraries
    count only where auditwheel puts what it copies in: a `.libs` folder.
    """
    path = PurePosixPath(member)
    if is_cuda_library(path.name):
        return True
    copied = path.parts[0].endswith(".libs")
    return copied and component_of(name_before_graft(path.name)) is not None


def relative_entry(library: PurePosixPath, folder: PurePosixPath) -> str:
    """The rpath entry with which a library finds a folder, both relative to site-packages."""
    way = os.path.relpath(folder, library.parent)
    return "$ORIGIN" if way == "." else f"$ORIGIN/{way}"


def resolve_entry(library: PurePosixPath, entry: str) -> PurePosixPath | None:
    """The folder below site-packages that an rpath entry of a library leads to.

    Returns:
        None where it is absolute, depends on anything but the library's path, or leads out of
        site-packages.
    """
    if not _ORIGIN.match(entry):
        return None
    way = os.path.normpath(_ORIGIN.sub(f"{library.parent}", entry, count=1))
    leaves = way == ".." or way.startswith(("../", "/")) or "$" in way
    return None if leaves else PurePosixPath(way)


# Libraries whose number is CUDA's own; others count for themselves (`libcusparse.so.12` is in CUDA
# 12 and 13). Read from NVIDIA's wheels of CUDA 11, 12 and 13.
_CUDA_SONAME = re.compile(
    r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink|cupti)\.so\.(\d+)(?:\.\d+)*"
)


def cuda_major_of(soname: str) -> str:
    """The major release of CUDA that a library's name states, `13`; empty where it states none."""
    match = _CUDA_SONAME.fullmatch(name_before_graft(soname))
    return match[1] if match else ""
