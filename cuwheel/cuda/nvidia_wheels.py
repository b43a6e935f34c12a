"""The wheels of NVIDIA's libraries on the package index: the data of the component table.

A row describes a wheel for CUDA 12 and its like for CUDA 13, as they differ in names and numbers
only: `(a|b)` stands for `a` under CUDA 12 and for `b` under CUDA 13, and a name that comes out
empty isn't there. `cuwheel.components` makes the table of this.

Names, folders, `DT_NEEDED`, rpaths and archives were read from the files of the releases that a row
names in `read`, `brings` from their METADATA. `may_open` are names that stand as strings in a
library which takes `dlopen` from the C library; of those in `opens` a comment says more.
tests/e2e/test_component_facts.py reads the wheels again.

The driver's libraries (libcuda.so.1) and the system's (libz.so.1 for cuDNN, libibverbs.so.1 for
cuFile) stand nowhere here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class NvidiaLibrary:
    """A component: what recipes link. Fields as in `cuwheel.components.Component`."""

    name: str
    sonames: tuple[str, ...]
    needs: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    may_open: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    static: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NvidiaWheel:
    """A wheel of NVIDIA's, and the libraries in it.

    Attributes:
        name: of the distribution.
        folder: where it puts the libraries, below site-packages.
        bounds: of a requirement on it, a template as `Component.requirement`.
        read: the releases that the row was read from.
        libraries: what it holds.
        first_release, conda, brings: as in `cuwheel.components.Component`.
        majors: the releases of CUDA that have one.
    """

    name: str
    folder: str
    bounds: str
    read: str
    libraries: tuple[NvidiaLibrary, ...]
    first_release: str = ""
    conda: str = ""
    brings: tuple[str, ...] = ()
    majors: tuple[int, ...] = (12, 13)


# Bounds: at least what we linked against, below the next major. A newer minor release of a library
# runs what was built against an older one, and may have functions that the older one lacks ("CUDA
# C++ Best Practices Guide", section "CUDA Toolkit Versioning"; cuDNN: the page "Compatibility" of
# its backend's guide). Minor releases are compared, not updates of one: conda and the package index
# have different updates (cuBLAS 12.8.5 and 12.8.4). Of a release 0.x one minor only is taken, as
# NVIDIA's own wheels do (cuquantum-python-cu13 26.9.0: `cudensitymat-cu13<0.8,>=0.7.0`;
# nvidia-cusolvermp-cu13 0.9.1: `nvidia-cublasmp-cu13<0.11`).
_CUDA = ">={release},<(13|14)"
_ONE_MINOR = "=={linked}.*"

# Archives in the order in which a linker needs them, from CMake 4.4's module FindCUDAToolkit, and
# for cuSOLVER from its documentation, section "Static Link". NVIDIA's wheels hold those of cudart
# and nvptxcompiler (and culibos) alone, and for CUDA 13 only; a whole toolkit holds them all.
_CUBLAS_LT = ("cublasLt_static", "culibos")
_CUBLAS = ("cublas_static", *_CUBLAS_LT)
_NVJITLINK = ("nvJitLink_static", "nvptxcompiler_static")
_CUSPARSE = ("cusparse_static", *_NVJITLINK, "culibos")

NPP_PARTS = ("ial", "icc", "idei", "if", "ig", "im", "ist", "isu", "itc", "s")

# Parts of cuDNN, which libcudnn.so.9 opens when they are first used: their names stand in it, with
# `.9` put behind them.
_CUDNN = "libcudnn*.so.9"

TOOLKIT_WHEELS = (
    NvidiaWheel(
        name="nvidia-cuda-runtime(-cu12|)",
        folder="nvidia/(cuda_runtime|cu13)/lib",
        bounds=_CUDA,
        read="(12.1.105, 12.8.90|13.0.96, 13.2.86, 13.5.37)",
        conda="cuda-cudart",
        libraries=(
            NvidiaLibrary(
                name="cudart", sonames=("libcudart.so.(12|13)",), static=("cudart_static",)
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cublas(-cu12|)",
        folder="nvidia/(cublas|cu13)/lib",
        bounds=">={cublas},<(13|14)",
        read="(12.1.3.1, 12.8.4.1, 12.9.3.13|13.1.0.3, 13.4.1.3, 13.10.0.20)",
        conda="libcublas",
        libraries=(
            NvidiaLibrary(
                name="cublas",
                sonames=("libcublas.so.(12|13)",),
                needs=("libcublasLt.so.(12|13)",),
                static=_CUBLAS,
            ),
            # Products of matrices of five types and three sizes opened nothing (13.1.0.3, H200,
            # LD_DEBUG=files).
            NvidiaLibrary(
                name="cublasLt",
                sonames=("libcublasLt.so.(12|13)",),
                may_open=("libnvrtc.so.(12|13)",),
                lost=(("(libnvrtc.so.12|)", ">=12.8"),),
                static=_CUBLAS_LT,
            ),
            NvidiaLibrary(
                name="nvblas",
                sonames=("libnvblas.so.(12|13)",),
                needs=("libcublas.so.(12|13)",),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cusparse(-cu12|)",
        folder="nvidia/(cusparse|cu13)/lib",
        bounds=">={cusparse},<13",
        read="(12.1.0.106, 12.3.1.170, 12.5.8.93|12.6.3.3, 12.7.10.12, 12.9.4.2)",
        conda="libcusparse",
        brings=("nvidia-nvjitlink(-cu12|)",),
        libraries=(
            # Since 12.9 it opens nvJitLink instead.
            NvidiaLibrary(
                name="cusparse",
                sonames=("libcusparse.so.12",),
                needs=("libnvJitLink.so.(12|13)",),
                static=_CUSPARSE,
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cusolver(-cu12|)",
        folder="nvidia/(cusolver|cu13)/lib",
        bounds=">={cusolver},<(12|13)",
        read="(11.4.5.107, 11.7.3.90|12.0.4.66, 12.0.7.41, 12.2.0.11, 12.4.1.2)",
        conda="libcusolver",
        brings=(
            "nvidia-cublas(-cu12|)",
            "nvidia-cusparse(-cu12|)",
            "nvidia-nvjitlink(-cu12|)",
        ),
        libraries=(
            NvidiaLibrary(
                name="cusolver",
                sonames=("libcusolver.so.(11|12)",),
                needs=(
                    "libcublas.so.(12|13)",
                    "libcublasLt.so.(12|13)",
                    "libcusparse.so.12",
                    "libnvJitLink.so.(12|13)",
                ),
                static=(
                    "cusolver_static",
                    "cusolver_metis_static",
                    "cusolver_lapack_static",
                    "cublas_static",
                    "cublasLt_static",
                    *_CUSPARSE,
                ),
            ),
            NvidiaLibrary(
                name="cusolverMg",
                sonames=("libcusolverMg.so.(11|12)",),
                needs=(
                    "libcublas.so.(12|13)",
                    "libcublasLt.so.(12|13)",
                    "(|libcusparse.so.12)",  # since 12.4
                    "libnvJitLink.so.(12|13)",
                ),
                # It has no rpath in CUDA 13.0.
                lost=tuple(
                    (f"(|{name}.so.13)", "<12.0.7")
                    for name in ("libcublas", "libcublasLt", "libnvJitLink")
                ),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-curand(-cu12|)",
        folder="nvidia/(curand|cu13)/lib",
        bounds=">={curand},<11",
        read="(10.3.9.90|10.4.0.35, 10.4.2.66, 10.4.5.25)",
        conda="libcurand",
        libraries=(
            # Since 10.4.5 it needs libcudart, whose wheel it doesn't require.
            NvidiaLibrary(
                name="curand",
                sonames=("libcurand.so.10",),
                needs=("(|libcudart.so.13)",),
                static=("curand_static", "culibos"),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cufft(-cu12|)",
        folder="nvidia/(cufft|cu13)/lib",
        bounds=">={cufft},<(12|13)",
        read="(11.0.2.54, 11.2.1.3, 11.3.3.83, 11.4.1.4|12.0.0.61, 12.2.0.57, 12.5.0.14)",
        conda="libcufft",
        brings=("(|nvidia-nvjitlink)",),  # nvidia-cufft-cu12 since 11.2.3 only
        libraries=(
            # Plans of one to three dimensions, of powers of two and of primes, opened nothing
            # (12.0.0.61, H200, LD_DEBUG=files).
            NvidiaLibrary(
                name="cufft",
                sonames=("libcufft.so.(11|12)", "libcufftw.so.(11|12)"),
                may_open=("libnvJitLink.so.(12|13)", "libnvrtc.so.(12|13)"),
                lost=(("(libnvJitLink.so.12|)", ">=11.2,<11.2.3"), ("(libnvrtc.so.12|)", ">=11.3")),
                static=("cufft_static", "culibos"),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cuda-nvrtc(-cu12|)",
        folder="nvidia/(cuda_nvrtc|cu13)/lib",
        bounds=_CUDA,
        read="(12.1.105, 12.8.93|13.0.88, 13.1.80, 13.2.86, 13.5.37)",
        conda="cuda-nvrtc",
        libraries=(
            # The builtins bear the minor release: libnvrtc-builtins.so.13.0. They are opened at the
            # first compilation, which fails where something else hasn't loaded them: CUDA 13.0's
            # libnvrtc has no rpath (13.0.88, found with LD_DEBUG=libs).
            NvidiaLibrary(
                name="nvrtc",
                sonames=("libnvrtc.so.(12|13)",),
                opens=("libnvrtc-builtins.so.(12|13).*",),
                lost=(("(|libnvrtc-builtins.so.13.*)", "<13.1"),),
                static=("nvrtc_static", "nvrtc-builtins_static", "nvptxcompiler_static"),
            ),
            NvidiaLibrary(name="nvrtc-builtins", sonames=("libnvrtc-builtins.so.(12|13).*",)),
        ),
    ),
    NvidiaWheel(
        name="nvidia-nvjitlink(-cu12|)",
        folder="nvidia/(nvjitlink|cu13)/lib",
        bounds=_CUDA,
        read="(12.8.93|13.0.88, 13.2.86, 13.5.37)",
        conda="libnvjitlink",
        libraries=(
            NvidiaLibrary(
                name="nvJitLink", sonames=("libnvJitLink.so.(12|13)",), static=_NVJITLINK
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-nvfatbin(-cu12|)",
        folder="nvidia/(nvfatbin|cu13)/lib",
        bounds=_CUDA,
        read="(12.8.90|13.0.85)",
        conda="libnvfatbin",
        libraries=(
            NvidiaLibrary(
                name="nvfatbin", sonames=("libnvfatbin.so.(12|13)",), static=("nvfatbin_static",)
            ),
        ),
    ),
    # CUDA 12's libnvvm.so.4 is in a file called libnvvm.so (nvidia-cuda-nvcc-cu12), which the
    # loader doesn't find by its soname.
    NvidiaWheel(
        name="nvidia-nvvm",
        folder="nvidia/cu13/lib",
        bounds=_CUDA,
        read="13.0.88",
        conda="cuda-nvvm-impl",
        libraries=(NvidiaLibrary(name="nvvm", sonames=("libnvvm.so.4",)),),
        majors=(13,),
    ),
    NvidiaWheel(
        name="nvidia-nvtx(-cu12|)",
        folder="nvidia/(nvtx|cu13)/lib",
        bounds=_CUDA,
        read="(12.8.90|13.0.85)",
        conda="cuda-nvtx",
        libraries=(NvidiaLibrary(name="nvtx", sonames=("lib(nvToolsExt|nvtx3interop).so.1",)),),
    ),
    NvidiaWheel(
        name="nvidia-cuda-cupti(-cu12|)",
        folder="nvidia/(cuda_cupti|cu13)/lib",
        bounds=_CUDA,
        read="(12.8.90|13.0.85)",
        conda="cuda-cupti",
        libraries=(
            NvidiaLibrary(name="cupti", sonames=("libcupti.so.(12|13)",), static=("cupti_static",)),
        ),
    ),
    NvidiaWheel(
        name="nvidia-nvjpeg(-cu12|)",
        folder="nvidia/(nvjpeg|cu13)/lib",
        bounds=">={linked},<(13|14)",
        first_release="(12.0|13.0)",
        read="(12.3.5.92|13.0.1.86)",
        conda="libnvjpeg",
        libraries=(
            NvidiaLibrary(
                name="nvjpeg",
                sonames=("libnvjpeg.so.(12|13)",),
                static=("nvjpeg_static", "culibos"),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-npp(-cu12|)",
        folder="nvidia/(npp|cu13)/lib",
        bounds=">={linked},<(13|14)",
        first_release="(12.0|13.0)",
        read="(12.3.3.100|13.0.1.2)",
        conda="libnpp",
        libraries=(
            NvidiaLibrary(
                name="nppc", sonames=("libnppc.so.(12|13)",), static=("nppc_static", "culibos")
            ),
            *(
                NvidiaLibrary(
                    name=f"npp{part}",
                    sonames=(f"libnpp{part}.so.(12|13)",),
                    needs=("libnppc.so.(12|13)",),
                    static=(f"npp{part}_static", "nppc_static", "culibos"),
                )
                for part in NPP_PARTS
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cufile(-cu12|)",
        folder="nvidia/(cufile|cu13)/lib",
        bounds=">={linked},<2",
        first_release="1.(11|15)",
        read="(1.13.1.3|1.15.1.6, 1.16.0.49, 1.20.0.107)",
        conda="libcufile",
        libraries=(
            NvidiaLibrary(
                name="cufile",
                sonames=("libcufile.so.0",),
                may_open=("libcufile_rdma.so.1",),
                lost=(("(|libcufile_rdma.so.1)", "<1.16"),),
                static=("cufile_static", "culibos"),
            ),
            NvidiaLibrary(
                name="cufile_rdma",
                sonames=("libcufile_rdma.so.1",),
                needs=("libcufile.so.0",),
                lost=(("(|libcufile.so.0)", "<1.16"),),
                static=("cufile_rdma_static", "cufile_static", "culibos"),
            ),
        ),
    ),
)

# No part of CUDA: they have releases of their own.
OTHER_WHEELS = (
    NvidiaWheel(
        name="nvidia-cudnn-(cu12|cu13)",
        folder="nvidia/cudnn/lib",
        bounds=">={linked},<10",
        first_release="9.0",
        read="9.13.1.26, (9.28.0.42|9.19.0.56, 9.28.0.42)",
        conda="libcudnn",
        brings=("nvidia-cublas(-cu12|)",),
        libraries=(
            NvidiaLibrary(
                name="cudnn",
                sonames=(_CUDNN,),
                opens=(_CUDNN,),
                may_open=("libcublasLt.so.(12|13)", "libnvrtc.so.(12|13)"),
                # 9.19 has an rpath entry to nvidia/cu13/lib.
                lost=(("(|libcublasLt.so.13)", "<9.14"), ("(|libnvrtc.so.13)", "<9.14")),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-nccl-(cu12|cu13)",
        folder="nvidia/nccl/lib",
        bounds=">={linked},<3",
        first_release="2.(16|27)",
        read="(2.27.3, 2.32.3|2.28.9, 2.32.3)",
        conda="nccl",
        libraries=(NvidiaLibrary(name="nccl", sonames=("libnccl.so.2",)),),
    ),
    # CUDA 13's 0.9.0 has it in nvidia/cu13/lib, where no rpath for 0.8 leads. Which releases 0.x
    # work with each other NVIDIA doesn't say; the soname is the same in 0.7 and 0.10.
    NvidiaWheel(
        name="nvidia-cusparselt-(cu12|cu13)",
        folder="nvidia/cusparselt/lib",
        bounds=">={linked},<(1|0.9)",
        first_release="0.(6|8)",
        read="(0.7.1, 0.8.1|0.8.0, 0.8.1)",
        conda="cusparselt",
        libraries=(
            NvidiaLibrary(
                name="cusparseLt",
                sonames=("libcusparseLt.so.0",),
                may_open=("libnvrtc.so.(12|13)",),
                lost=(("libnvrtc.so.(12|13)", ""),),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-nvshmem-(cu12|cu13)",
        folder="nvidia/nvshmem/lib",
        bounds=">={linked},<4",
        first_release="3.(1|3)",
        read="3.4.5, 3.8.0",
        libraries=(
            # Its wheel has a module for each kind of start and transport, one of which it takes.
            NvidiaLibrary(
                name="nvshmem",
                sonames=("libnvshmem_host.so.3",),
                opens=("nvshmem_*.so.3",),
                may_open=("libnccl.so.2",),
                lost=(("libnccl.so.2", ""),),
            ),
        ),
    ),
    NvidiaWheel(
        name="cutensor-(cu12|cu13)",
        folder="cutensor/lib",
        bounds=">={linked},<3",
        first_release="2.(0|3)",
        read="2.8.1",
        libraries=(
            NvidiaLibrary(
                name="cutensor",
                sonames=("libcutensor.so.2",),
                needs=("libcublasLt.so.(12|13)",),
                may_open=("libnvrtc.so.(12|13)",),
                lost=(("(libnvrtc.so.12|)", ""),),
            ),
            NvidiaLibrary(
                name="cutensorMg", sonames=("libcutensorMg.so.2",), needs=("libcutensor.so.2",)
            ),
            NvidiaLibrary(
                name="cutensorMp",
                sonames=("libcutensorMp.so.2",),
                needs=("libcutensor.so.2", "libnccl.so.2", "libcudart.so.(12|13)"),
                lost=(("(libcudart.so.12|)", ""),),
            ),
        ),
    ),
    NvidiaWheel(
        name="cutensornet-(cu12|cu13)",
        folder="cuquantum/lib",
        bounds=">={linked},<3",
        first_release="2.(1|9)",
        read="2.14.0",
        brings=("cutensor-(cu12|cu13)",),
        libraries=(
            NvidiaLibrary(
                name="cutensornet",
                sonames=("libcutensornet.so.2",),
                needs=("libcutensor.so.2", "libcublas.so.(12|13)", "libcusolver.so.(11|12)"),
                may_open=("libcutensorMp.so.2", "libcusolverMp.so.0", "libnccl.so.2"),
                lost=(("libnccl.so.2", ""), ("(libcusolverMp.so.0|)", "")),
            ),
        ),
    ),
    NvidiaWheel(
        name="custatevec-(cu12|cu13)",
        folder="cuquantum/lib",
        bounds=">={linked},<2",
        first_release="1.(3|10)",
        read="1.15.0",
        libraries=(
            NvidiaLibrary(
                name="custatevec",
                sonames=("libcustatevec.so.1",),
                needs=("libcublas.so.(12|13)", "libcublasLt.so.(12|13)"),
            ),
        ),
    ),
    NvidiaWheel(
        name="cudensitymat-(cu12|cu13)",
        folder="cuquantum/lib",
        bounds=_ONE_MINOR,
        first_release="0.7",
        read="0.7.0",
        brings=("cutensor-(cu12|cu13)", "cutensornet-(cu12|cu13)"),
        libraries=(
            NvidiaLibrary(
                name="cudensitymat",
                sonames=("libcudensitymat.so.0",),
                needs=(
                    "libcutensornet.so.2",
                    "libcutensor.so.2",
                    "libcusolver.so.(11|12)",
                    "libcublasLt.so.(12|13)",
                    "libcublas.so.(12|13)",
                    "libcurand.so.10",
                    "libcusparse.so.12",
                    "libnvJitLink.so.(12|13)",
                ),
                lost=(("(libcusparse.so.12|)", ""), ("(libnvJitLink.so.12|)", "")),
            ),
        ),
    ),
    NvidiaWheel(
        name="cupauliprop-(cu12|cu13)",
        folder="cuquantum/lib",
        bounds=_ONE_MINOR,
        first_release="0.5",
        read="0.5.0",
        libraries=(NvidiaLibrary(name="cupauliprop", sonames=("libcupauliprop.so.0",)),),
    ),
    NvidiaWheel(
        name="custabilizer-(cu12|cu13)",
        folder="cuquantum/lib",
        bounds=_ONE_MINOR,
        first_release="0.5",
        read="0.5.0",
        libraries=(NvidiaLibrary(name="custabilizer", sonames=("libcustabilizer.so.0",)),),
    ),
    NvidiaWheel(
        name="nvidia-cublasmp-(cu12|cu13)",
        folder="nvidia/cublasmp/(cu12|cu13)/lib",
        bounds=_ONE_MINOR,
        first_release="0.10",
        read="0.10.0.3695",
        brings=("nvidia-cublas(-cu12|)", "nvidia-nccl-(cu12|cu13)"),
        libraries=(
            NvidiaLibrary(
                name="cublasMp",
                sonames=("libcublasmp.so.0",),
                needs=("libcublas.so.(12|13)", "libcublasLt.so.(12|13)", "libnccl.so.2"),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cusolvermp-(cu12|cu13)",
        folder="nvidia/(cu12|cu13)/lib",
        bounds=_ONE_MINOR,
        first_release="0.9",
        read="0.9.1.9318.post1",
        brings=(
            "nvidia-cublas(-cu12|)",
            "nvidia-cublasmp-(cu12|cu13)",
            "nvidia-cuda-runtime(-cu12|)",
            "nvidia-cusolver(-cu12|)",
            "nvidia-nccl-(cu12|cu13)",
        ),
        libraries=(
            NvidiaLibrary(
                name="cusolverMp",
                sonames=("libcusolverMp.so.0",),
                needs=(
                    "libcublas.so.(12|13)",
                    "libcublasLt.so.(12|13)",
                    "libcublasmp.so.0",
                    "libcudart.so.(12|13)",
                    "libcusolver.so.(11|12)",
                    "libnccl.so.2",
                ),
            ),
        ),
    ),
    # Its wheel for CUDA 13 has a libcufftw.so.12 too, which isn't cuFFT's.
    NvidiaWheel(
        name="nvidia-cufftmp-(cu12|cu13)",
        folder="nvidia/cufftmp/(cu12|cu13)/lib",
        bounds=">={linked},<(12|13)",
        first_release="(11.4|12.1)",
        read="(11.4.0.6.post1|12.1.3.2)",
        brings=("nvidia-nvshmem-(cu12|cu13)",),
        libraries=(
            NvidiaLibrary(
                name="cufftMp",
                sonames=("libcufftMp.so.(11|12)",),
                needs=("libnvshmem_host.so.3",),
                may_open=("libnvJitLink.so.(12|13)", "libnvrtc.so.(12|13)"),
                lost=(("libnvJitLink.so.(12|13)", ""), ("libnvrtc.so.(12|13)", "")),
            ),
        ),
    ),
    NvidiaWheel(
        name="nvidia-cudss-(cu12|cu13)",
        folder="nvidia/(cu12|cu13)/lib",
        bounds=">={linked},<2",
        first_release="1.0",
        read="1.0.0.35",
        conda="libcudss",
        brings=("nvidia-cublas(-cu12|)", "nvidia-cuda-nvrtc(-cu12|)"),
        libraries=(
            NvidiaLibrary(
                name="cudss",
                sonames=("libcudss.so.1",),
                needs=("libcublas.so.(12|13)", "libnvrtc.so.(12|13)"),
            ),
        ),
    ),
)
