"""The supplier of a library, by its name."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase, translate
from pathlib import PurePosixPath

from cuwheel.check.cuda.components import (
    COMPONENTS,
    KNOWN_COMPONENTS,
    Component,
    fits,
    linkable_components,
)

DRIVER_SONAME = "libcuda.so.1"  # the part of the driver that programs link

# They come with the driver and have to match it, so no wheel may contain them: the files of the
# Linux driver 580.159.04 on a machine with an H200, and those that libnvidia-container looks for of
# older ones (its `nvc_info.c`). The driver's README, chapter "Installed Components", lists each.
_DRIVER_LIBRARY = re.compile(
    r"lib(cuda|cudadebugger|nvcuvid|nvoptix|vdpau_nvidia|(EGL|GLX|GLESv1_CM|GLESv2)_nvidia"
    r"|nvidia-(allocator|cfg|compiler|eglcore|encode|fatbinaryloader|fbc|glcore|glsi|glvkspirv"
    r"|gpucomp|ifr|ml|nvvm|opencl|opticalflow|pkcs11|pkcs11-openssl3|ptxjitcompiler|rtcore|tls))"
    r"\.so(\.\d+)+"
)

# Libraries of CUDA and of the NVIDIA packages around it, with the suffix of auditwheel
# (`libcudart-1a2b3c4d.so.13.0.96`), of PyTorch's scripts (`libcudart.3eda8113.so.13` in
# torchvision 0.29.2), or none. Names from the wheels of `nvidia_wheels` and `foreign_wheels`.
_CUDA_LIBRARY = re.compile(
    r"lib(cuda|cudart|cublas|cublasLt|cublas[mM]p|nvblas|cudnn\w*|cudss\w*|cufft|cufftw|cufftMp"
    r"|cufile\w*|cupauliprop|cupti|curand|cusolver|cusolverMg|cusolverMp|cusparse|cusparseLt"
    r"|custabilizer|custatevec|cutensor\w*|cudensitymat|npp\w+|nccl|nvfatbin|nvinfer\w*|nvJitLink"
    r"|nvjpeg|nvjpeg2k|nvonnxparser|nvperf_host|nvperf_target|nvrtc|nvrtc-builtins|nvshmem\w*"
    r"|nvtiff|nvtx3interop|nvToolsExt|nvvm)([-.][0-9a-f]{8})?\.so(\.\d+)*"
)

# Libraries of AMD's ROCm and of Intel's oneAPI, which aren't checked. Names from the needs of
# bitsandbytes 0.49.1, from AMD's list "ROCm libraries" and from Intel's of the needs of its
# compilers' programs.
_OTHER_ACCELERATOR = re.compile(
    r"lib(amdhip64|amd_comgr|hsa-runtime64|MIOpen|migraphx\w*|rccl"
    r"|hip(blas|blaslt|dnn|fft|rand|rtc|rtc-builtins|solver|sparse|sparselt|tensor)"
    r"|roc(alution|blas|fft|m_smi64|profiler\w*|rand|solver|sparse|tracer64|tx64)"
    r"|sycl|svml|imf|intlc|irng|ccl|ze_loader|ze_intel_gpu|ur_loader|mkl_sycl\w*)"
    r"(-[0-9a-f]{8})?\.so(\.\d+)*"
)
_GRAFTED_NAME = re.compile(r"[-.][0-9a-f]{8}(?=\.so)")


def component_of(soname: str, cuda: int | None = None) -> Component | None:
    """Return the component of a `DT_NEEDED` entry that recipes can link, or None.

    Args:
        cuda: the target's major release of CUDA; None: any.
    """
    parts = linkable_components(cuda)
    if parts is COMPONENTS and not _any_component().match(soname):
        return None
    return next((part for part in parts if fits(part, cuda) and _has(part, soname)), None)


def components_of(soname: str) -> tuple[Component, ...]:
    """Return every component with a soname, which two CUDA majors may have; linkable ones first."""
    return tuple(component for component in KNOWN_COMPONENTS if _has(component, soname))


@functools.cache
def _any_component() -> re.Pattern[str]:
    """Return one pattern for all components: most of a machine's libraries are of none."""
    return re.compile("|".join(translate(name) for part in COMPONENTS for name in part.sonames))


def _has(component: Component, soname: str) -> bool:
    return any(fnmatchcase(soname, pattern) for pattern in component.sonames)


def is_cuda_library(name: str) -> bool:
    """Return True for a soname or file name of NVIDIA's own libraries, of any major version."""
    return _CUDA_LIBRARY.fullmatch(name) is not None


def is_from_driver(soname: str) -> bool:
    """Return True if the library comes with the GPU's driver."""
    return _DRIVER_LIBRARY.fullmatch(soname) is not None


def is_other_accelerator(soname: str) -> bool:
    """Return True for the libraries of another maker's accelerator, which aren't checked."""
    return _OTHER_ACCELERATOR.fullmatch(soname) is not None


def name_before_graft(file: str) -> str:
    """Return `libcudart.so.13` for the copy's name by auditwheel, `libcudart-1a2b3c4d.so.13`."""
    return _GRAFTED_NAME.sub("", file)


def component_of_copy(file: str, cuda: int | None = None) -> Component | None:
    """Return the component of a copied file, as of `libcufft-1a2b3c4d.so.12.0.0.61`."""
    name = name_before_graft(file)
    while ".so" in name:
        for component in components_of(name):
            if fits(component, cuda):
                return component
        name = name.rpartition(".")[0]
    return None


def stem_of(file: str) -> str:
    """Return `libgomp` for a library's or copy's file name: `libgomp-1a2b3c4d.so.1.0.0`."""
    return name_before_graft(file).partition(".so")[0]


def is_grafted(member: str) -> bool:
    """Return True if a file in a wheel is a library that belongs to another wheel.

    A package may have its own `libtorchaudio.so`, so names of a framework's libraries count only
    in the folder of auditwheel's copies, `.libs`.
    """
    path = PurePosixPath(member)
    if is_cuda_library(path.name):
        return True
    copied = path.parts[0].endswith(".libs")
    return copied and component_of(name_before_graft(path.name)) is not None


# Libraries with CUDA's own number; others have their own: CUDA 12 and 13 have `libcusparse.so.12`.
# From NVIDIA's wheels of CUDA 11, 12 and 13.
_CUDA_SONAME = re.compile(
    r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink|cupti)\.so\.(\d+)(?:\.\d+)*"
)


def cuda_major_of(soname: str) -> str:
    """Return the major release of CUDA in a library's name, `13`; empty if it has none."""
    match = _CUDA_SONAME.fullmatch(name_before_graft(soname))
    return match[1] if match else ""
