"""NVIDIA's wheels on the package index: the data of the component table.

A row describes a wheel for CUDA 12 and its equivalent for CUDA 13, which differ in names and
numbers only: `(a|b)` is `a` for CUDA 12 and `b` for CUDA 13, and an empty name is no name.

Names, folders, `DT_NEEDED`, rpaths and archives are from the files of the releases in `read`,
`brings` from their METADATA. `may_open` are names that occur as strings in a library which imports
`dlopen` from the C library; those in `opens` have a comment. tests/e2e/tables/test_components.py
reads the wheels again. The libraries of the driver (libcuda.so.1) and of the system (libz.so.1 for
cuDNN, libibverbs.so.1 for cuFile) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class NvidiaLibrary:
    """A component; fields as in `components.Component`, with spaces between several names.

    Attributes:
        lost: names, each with its releases behind it: `libnvrtc.so.12>=12.8`.
    """

    name: str
    sonames: str
    needs: str = ""
    opens: str = ""
    may_open: str = ""
    lost: str = ""
    static: str = ""


def library(name: str, number: str = "", *, sonames: str = "", **fields: Any) -> NvidiaLibrary:
    """Return a component, usually of one library, `lib<name>.so.<number>`."""
    return NvidiaLibrary(name=name, sonames=sonames or f"lib{name}.so.{number}", **fields)


@dataclass(frozen=True, kw_only=True)
class NvidiaWheel:
    """A wheel of NVIDIA, and its libraries; other fields as in `components.Component`.

    Attributes:
        bounds: of a requirement on it, a template as `Component.requirement`.
        read: the releases from which the row is, by CUDA major.
        brings: with spaces between several names.
    """

    name: str
    folder: str
    bounds: str
    read: str
    libraries: tuple[NvidiaLibrary, ...]
    first_release: str = ""
    conda: str = ""
    brings: str = ""
    majors: tuple[int, ...] = (12, 13)


def wheel(name: str, *libraries: NvidiaLibrary, **fields: Any) -> NvidiaWheel:
    """Return a row of the table."""
    return NvidiaWheel(name=name, libraries=libraries, **fields)


# Bounds: at least the release that we linked against, below the next major. A newer minor release
# of a library runs programs for an older one, and may have functions that it lacks ("CUDA C++ Best
# Practices Guide", section "CUDA Toolkit Versioning"; cuDNN: the page "Compatibility" of
# its backend's guide). Minor releases are compared, not updates of one: conda and the package index
# have different updates (cuBLAS 12.8.5 and 12.8.4). Releases 0.x are bound to one minor release, as
# in NVIDIA's own wheels (cuquantum-python-cu13 26.9.0: `cudensitymat-cu13<0.8,>=0.7.0`;
# nvidia-cusolvermp-cu13 0.9.1: `nvidia-cublasmp-cu13<0.11`).
_CUDA = ">={release},<(13|14)"
_ONE_MINOR = "=={linked}.*"

# Archives in the order in which a linker needs them, from CMake 4.4's module FindCUDAToolkit, and
# for cuSOLVER from its documentation, section "Static Link". NVIDIA's wheels hold those of cudart
# and nvptxcompiler (and culibos) alone, and for CUDA 13 only; a whole toolkit holds them all.
_CUBLAS_LT = "cublasLt_static culibos"
_CUBLAS = f"cublas_static {_CUBLAS_LT}"
_NVJITLINK = "nvJitLink_static nvptxcompiler_static"
_CUSPARSE = f"cusparse_static {_NVJITLINK} culibos"

NPP_PARTS = ("ial", "icc", "idei", "if", "ig", "im", "ist", "isu", "itc", "s")

# Parts of cuDNN, which libcudnn.so.9 opens at first use: it contains their names, and appends `.9`.
_CUDNN = "libcudnn*.so.9"


def _toolkit_wheel(
    part: str, *libraries: NvidiaLibrary, bounds: str = _CUDA, **fields: Any
) -> NvidiaWheel:
    folder = f"nvidia/({part.replace('-', '_')}|cu13)/lib"
    return wheel(f"nvidia-{part}(-cu12|)", *libraries, folder=folder, bounds=bounds, **fields)


TOOLKIT_WHEELS = (
    _toolkit_wheel(
        "cuda-runtime",
        library("cudart", "(12|13)", static="cudart_static"),
        read="(12.1.105, 12.8.90|13.0.96, 13.2.86, 13.5.37)",
        conda="cuda-cudart",
    ),
    _toolkit_wheel(
        "cublas",
        library("cublas", "(12|13)", needs="libcublasLt.so.(12|13)", static=_CUBLAS),
        # Products of matrices of five types and three sizes opened nothing (13.1.0.3, H200,
        # LD_DEBUG=files).
        library(
            "cublasLt",
            "(12|13)",
            may_open="libnvrtc.so.(12|13)",
            lost="(libnvrtc.so.12|)>=12.8",
            static=_CUBLAS_LT,
        ),
        library("nvblas", "(12|13)", needs="libcublas.so.(12|13)"),
        bounds=">={cublas},<(13|14)",
        read="(12.1.3.1, 12.8.4.1, 12.9.3.13|13.1.0.3, 13.4.1.3, 13.10.0.20)",
        conda="libcublas",
    ),
    _toolkit_wheel(
        "cusparse",
        # Since 12.9 it opens nvJitLink instead.
        library("cusparse", "12", needs="libnvJitLink.so.(12|13)", static=_CUSPARSE),
        bounds=">={cusparse},<13",
        read="(12.1.0.106, 12.3.1.170, 12.5.8.93|12.6.3.3, 12.7.10.12, 12.9.4.2)",
        conda="libcusparse",
        brings="nvidia-nvjitlink(-cu12|)",
    ),
    _toolkit_wheel(
        "cusolver",
        library(
            "cusolver",
            "(11|12)",
            needs=(
                "libcublas.so.(12|13) libcublasLt.so.(12|13) libcusparse.so.12 "
                "libnvJitLink.so.(12|13)"
            ),
            static=(
                "cusolver_static cusolver_metis_static cusolver_lapack_static "
                f"cublas_static cublasLt_static {_CUSPARSE}"
            ),
        ),
        library(
            "cusolverMg",
            "(11|12)",
            # libcusparse since 12.4
            needs=(
                "libcublas.so.(12|13) libcublasLt.so.(12|13) (|libcusparse.so.12) "
                "libnvJitLink.so.(12|13)"
            ),
            # It has no rpath in CUDA 13.0.
            lost=(
                "(|libcublas.so.13)<12.0.7 (|libcublasLt.so.13)<12.0.7 (|libnvJitLink.so.13)<12.0.7"
            ),
        ),
        bounds=">={cusolver},<(12|13)",
        read="(11.4.5.107, 11.7.3.90|12.0.4.66, 12.0.7.41, 12.2.0.11, 12.4.1.2)",
        conda="libcusolver",
        brings=("nvidia-cublas(-cu12|) nvidia-cusparse(-cu12|) nvidia-nvjitlink(-cu12|)"),
    ),
    _toolkit_wheel(
        "curand",
        # Since 10.4.5 it needs libcudart, and doesn't require its wheel.
        library("curand", "10", needs="(|libcudart.so.13)", static="curand_static culibos"),
        bounds=">={curand},<11",
        read="(10.3.9.90|10.4.0.35, 10.4.2.66, 10.4.5.25)",
        conda="libcurand",
    ),
    _toolkit_wheel(
        "cufft",
        # Plans of one to three dimensions, of powers of two and of primes, opened nothing
        # (12.0.0.61, H200, LD_DEBUG=files).
        library(
            "cufft",
            sonames="libcufft.so.(11|12) libcufftw.so.(11|12)",
            may_open="libnvJitLink.so.(12|13) libnvrtc.so.(12|13)",
            lost="(libnvJitLink.so.12|)>=11.2,<11.2.3 (libnvrtc.so.12|)>=11.3",
            static="cufft_static culibos",
        ),
        bounds=">={cufft},<(12|13)",
        read="(11.0.2.54, 11.2.1.3, 11.3.3.83, 11.4.1.4|12.0.0.61, 12.2.0.57, 12.5.0.14)",
        conda="libcufft",
        brings="(|nvidia-nvjitlink)",  # nvidia-cufft-cu12 since 11.2.3 only
    ),
    _toolkit_wheel(
        "cuda-nvrtc",
        # The builtins have the minor release: libnvrtc-builtins.so.13.0. They are opened at the
        # first compilation, which fails unless they are loaded already: CUDA 13.0's libnvrtc
        # has no rpath (13.0.88, LD_DEBUG=libs).
        library(
            "nvrtc",
            "(12|13)",
            opens="libnvrtc-builtins.so.(12|13).*",
            lost="(|libnvrtc-builtins.so.13.*)<13.1",
            static="nvrtc_static nvrtc-builtins_static nvptxcompiler_static",
        ),
        library("nvrtc-builtins", "(12|13).*"),
        read="(12.1.105, 12.8.93|13.0.88, 13.1.80, 13.2.86, 13.5.37)",
        conda="cuda-nvrtc",
    ),
    _toolkit_wheel(
        "nvjitlink",
        library("nvJitLink", "(12|13)", static=_NVJITLINK),
        read="(12.8.93|13.0.88, 13.2.86, 13.5.37)",
        conda="libnvjitlink",
    ),
    _toolkit_wheel(
        "nvfatbin",
        library("nvfatbin", "(12|13)", static="nvfatbin_static"),
        read="(12.8.90|13.0.85)",
        conda="libnvfatbin",
    ),
    # CUDA 12's libnvvm.so.4 is in a file called libnvvm.so (nvidia-cuda-nvcc-cu12), which the
    # loader doesn't find by its soname.
    wheel(
        "nvidia-nvvm",
        library("nvvm", "4"),
        folder="nvidia/cu13/lib",
        bounds=_CUDA,
        read="13.0.88",
        conda="cuda-nvvm-impl",
        majors=(13,),
    ),
    _toolkit_wheel(
        "nvtx",
        library("nvtx", sonames="lib(nvToolsExt|nvtx3interop).so.1"),
        read="(12.8.90|13.0.85)",
        conda="cuda-nvtx",
    ),
    _toolkit_wheel(
        "cuda-cupti",
        library("cupti", "(12|13)", static="cupti_static"),
        read="(12.8.90|13.0.85)",
        conda="cuda-cupti",
    ),
    _toolkit_wheel(
        "nvjpeg",
        library("nvjpeg", "(12|13)", static="nvjpeg_static culibos"),
        bounds=">={linked},<(13|14)",
        first_release="(12.0|13.0)",
        read="(12.3.5.92|13.0.1.86)",
        conda="libnvjpeg",
    ),
    _toolkit_wheel(
        "npp",
        library("nppc", "(12|13)", static="nppc_static culibos"),
        *(
            library(
                f"npp{part}",
                "(12|13)",
                needs="libnppc.so.(12|13)",
                static=f"npp{part}_static nppc_static culibos",
            )
            for part in NPP_PARTS
        ),
        bounds=">={linked},<(13|14)",
        first_release="(12.0|13.0)",
        read="(12.3.3.100|13.0.1.2)",
        conda="libnpp",
    ),
    _toolkit_wheel(
        "cufile",
        library(
            "cufile",
            "0",
            may_open="libcufile_rdma.so.1",
            lost="(|libcufile_rdma.so.1)<1.16",
            static="cufile_static culibos",
        ),
        library(
            "cufile_rdma",
            "1",
            needs="libcufile.so.0",
            lost="(|libcufile.so.0)<1.16",
            static="cufile_rdma_static cufile_static culibos",
        ),
        bounds=">={linked},<2",
        first_release="1.(11|15)",
        read="(1.13.1.3|1.15.1.6, 1.16.0.49, 1.20.0.107)",
        conda="libcufile",
    ),
)

# Not parts of CUDA, with separate releases.
OTHER_WHEELS = (
    wheel(
        "nvidia-cudnn-(cu12|cu13)",
        library(
            "cudnn",
            sonames=_CUDNN,
            opens=_CUDNN,
            may_open="libcublasLt.so.(12|13) libnvrtc.so.(12|13)",
            # 9.19 has an rpath entry to nvidia/cu13/lib.
            lost="(|libcublasLt.so.13)<9.14 (|libnvrtc.so.13)<9.14",
        ),
        folder="nvidia/cudnn/lib",
        bounds=">={linked},<10",
        first_release="9.0",
        read="9.13.1.26, (9.28.0.42|9.19.0.56, 9.28.0.42)",
        conda="libcudnn",
        brings="nvidia-cublas(-cu12|)",
    ),
    wheel(
        "nvidia-nccl-(cu12|cu13)",
        library("nccl", "2"),
        folder="nvidia/nccl/lib",
        bounds=">={linked},<3",
        first_release="2.(16|27)",
        read="(2.27.3, 2.32.3|2.28.9, 2.32.3)",
        conda="nccl",
    ),
    # CUDA 13's 0.9.0 has it in nvidia/cu13/lib, where no rpath for 0.8 leads. NVIDIA
    # doesn't document which releases 0.x are compatible; 0.7 and 0.10 have the same soname.
    wheel(
        "nvidia-cusparselt-(cu12|cu13)",
        library("cusparseLt", "0", may_open="libnvrtc.so.(12|13)", lost="libnvrtc.so.(12|13)"),
        folder="nvidia/cusparselt/lib",
        bounds=">={linked},<(1|0.9)",
        first_release="0.(6|8)",
        read="(0.7.1, 0.8.1|0.8.0, 0.8.1)",
        conda="cusparselt",
    ),
    wheel(
        "nvidia-nvshmem-(cu12|cu13)",
        # Its wheel has a module for each kind of start and transport, one of which it opens.
        library(
            "nvshmem",
            sonames="libnvshmem_host.so.3",
            opens="nvshmem_*.so.3",
            may_open="libnccl.so.2",
            lost="libnccl.so.2",
        ),
        folder="nvidia/nvshmem/lib",
        bounds=">={linked},<4",
        first_release="3.(1|3)",
        read="3.4.5, 3.8.0",
    ),
    wheel(
        "cutensor-(cu12|cu13)",
        library(
            "cutensor",
            "2",
            needs="libcublasLt.so.(12|13)",
            may_open="libnvrtc.so.(12|13)",
            lost="(libnvrtc.so.12|)",
        ),
        library("cutensorMg", "2", needs="libcutensor.so.2"),
        library(
            "cutensorMp",
            "2",
            needs="libcutensor.so.2 libnccl.so.2 libcudart.so.(12|13)",
            lost="(libcudart.so.12|)",
        ),
        folder="cutensor/lib",
        bounds=">={linked},<3",
        first_release="2.(0|3)",
        read="2.8.1",
    ),
    wheel(
        "cutensornet-(cu12|cu13)",
        library(
            "cutensornet",
            "2",
            needs="libcutensor.so.2 libcublas.so.(12|13) libcusolver.so.(11|12)",
            may_open="libcutensorMp.so.2 libcusolverMp.so.0 libnccl.so.2",
            lost="libnccl.so.2 (libcusolverMp.so.0|)",
        ),
        folder="cuquantum/lib",
        bounds=">={linked},<3",
        first_release="2.(1|9)",
        read="2.14.0",
        brings="cutensor-(cu12|cu13)",
    ),
    wheel(
        "custatevec-(cu12|cu13)",
        library("custatevec", "1", needs="libcublas.so.(12|13) libcublasLt.so.(12|13)"),
        folder="cuquantum/lib",
        bounds=">={linked},<2",
        first_release="1.(3|10)",
        read="1.15.0",
    ),
    wheel(
        "cudensitymat-(cu12|cu13)",
        library(
            "cudensitymat",
            "0",
            needs=(
                "libcutensornet.so.2 libcutensor.so.2 libcusolver.so.(11|12) "
                "libcublasLt.so.(12|13) libcublas.so.(12|13) libcurand.so.10 "
                "libcusparse.so.12 libnvJitLink.so.(12|13)"
            ),
            lost="(libcusparse.so.12|) (libnvJitLink.so.12|)",
        ),
        folder="cuquantum/lib",
        bounds=_ONE_MINOR,
        first_release="0.7",
        read="0.7.0",
        brings="cutensor-(cu12|cu13) cutensornet-(cu12|cu13)",
    ),
    wheel(
        "cupauliprop-(cu12|cu13)",
        library("cupauliprop", "0"),
        folder="cuquantum/lib",
        bounds=_ONE_MINOR,
        first_release="0.5",
        read="0.5.0",
    ),
    wheel(
        "custabilizer-(cu12|cu13)",
        library("custabilizer", "0"),
        folder="cuquantum/lib",
        bounds=_ONE_MINOR,
        first_release="0.5",
        read="0.5.0",
    ),
    wheel(
        "nvidia-cublasmp-(cu12|cu13)",
        library(
            "cublasMp",
            sonames="libcublasmp.so.0",
            needs="libcublas.so.(12|13) libcublasLt.so.(12|13) libnccl.so.2",
        ),
        folder="nvidia/cublasmp/(cu12|cu13)/lib",
        bounds=_ONE_MINOR,
        first_release="0.10",
        read="0.10.0.3695",
        brings="nvidia-cublas(-cu12|) nvidia-nccl-(cu12|cu13)",
    ),
    wheel(
        "nvidia-cusolvermp-(cu12|cu13)",
        library(
            "cusolverMp",
            "0",
            needs=(
                "libcublas.so.(12|13) libcublasLt.so.(12|13) libcublasmp.so.0 "
                "libcudart.so.(12|13) libcusolver.so.(11|12) libnccl.so.2"
            ),
        ),
        folder="nvidia/(cu12|cu13)/lib",
        bounds=_ONE_MINOR,
        first_release="0.9",
        read="0.9.1.9318.post1",
        brings=(
            "nvidia-cublas(-cu12|) nvidia-cublasmp-(cu12|cu13) "
            "nvidia-cuda-runtime(-cu12|) nvidia-cusolver(-cu12|) "
            "nvidia-nccl-(cu12|cu13)"
        ),
    ),
    # Its wheel for CUDA 13 has a libcufftw.so.12 too, which isn't cuFFT's.
    wheel(
        "nvidia-cufftmp-(cu12|cu13)",
        library(
            "cufftMp",
            "(11|12)",
            needs="libnvshmem_host.so.3",
            may_open="libnvJitLink.so.(12|13) libnvrtc.so.(12|13)",
            lost="libnvJitLink.so.(12|13) libnvrtc.so.(12|13)",
        ),
        folder="nvidia/cufftmp/(cu12|cu13)/lib",
        bounds=">={linked},<(12|13)",
        first_release="(11.4|12.1)",
        read="(11.4.0.6.post1|12.1.3.2)",
        brings="nvidia-nvshmem-(cu12|cu13)",
    ),
    wheel(
        "nvidia-cudss-(cu12|cu13)",
        library("cudss", "1", needs="libcublas.so.(12|13) libnvrtc.so.(12|13)"),
        folder="nvidia/(cu12|cu13)/lib",
        bounds=">={linked},<2",
        first_release="1.0",
        read="1.0.0.35",
        conda="libcudss",
        brings="nvidia-cublas(-cu12|) nvidia-cuda-nvrtc(-cu12|)",
    ),
)
