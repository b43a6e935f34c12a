"""NVIDIA's wheels that only third-party wheels need, cuDNN 8 and TensorRT, and those of CUDA 11.

Rows as in `nvidia_wheels`; `bounds` are the releases with the names of the row. TensorRT's own
wheels are only on NVIDIA's index: its rows are from its sources (NVIDIA/TensorRT on GitHub,
`python/packaging/libs_wheel`), and have no `read`.
"""

from __future__ import annotations

from typing import Any

from cuwheel.check.cuda.nvidia_wheels import NPP_PARTS, NvidiaLibrary, NvidiaWheel, library, wheel

_CUDNN_8 = "libcudnn*.so.8"
_CUDNN_9 = "libcudnn*.so.9"


def _of_cuda_11(part: str, *libraries: NvidiaLibrary, release: int, **fields: Any) -> NvidiaWheel:
    return wheel(
        f"nvidia-{part}-cu11",
        *libraries,
        folder=f"nvidia/{part.replace('-', '_')}/lib",
        bounds=f">={release},<{release + 1}",
        majors=(11,),
        **fields,
    )


FOREIGN_WHEELS = (
    _of_cuda_11("cuda-runtime", library("cudart", "11.0"), release=11, read="11.7.99, 11.8.89"),
    _of_cuda_11(
        "cublas",
        library("cublas", "11", needs="libcublasLt.so.11"),
        library("cublasLt", "11"),
        library("nvblas", "11", needs="libcublas.so.11"),
        release=11,
        read="11.11.3.6",
    ),
    _of_cuda_11("cusparse", library("cusparse", "11"), release=11, read="11.7.5.86"),
    _of_cuda_11(
        "cusolver",
        *(
            library(name, "11", needs="libcublas.so.11 libcublasLt.so.11")
            for name in ("cusolver", "cusolverMg")
        ),
        release=11,
        read="11.4.0.1, 11.4.1.48",
        brings="nvidia-cublas-cu11",
    ),
    _of_cuda_11("curand", library("curand", "10"), release=10, read="10.3.0.86"),
    _of_cuda_11(
        "cufft",
        library("cufft", sonames="libcufft.so.10 libcufftw.so.10"),
        release=10,
        read="10.9.0.58",
    ),
    _of_cuda_11(
        "cuda-nvrtc",
        library(
            "nvrtc",
            "11.2",  # of 11.2 and all later
            opens="libnvrtc-builtins.so.11.*",
        ),
        library("nvrtc-builtins", "11.*"),
        release=11,
        read="11.7.99, 11.8.89",
    ),
    _of_cuda_11(
        "nvtx", library("nvtx", sonames="libnvToolsExt.so.1"), release=11, read="11.7.91, 11.8.86"
    ),
    _of_cuda_11("cuda-cupti", library("cupti", "11.*"), release=11, read="11.8.87"),
    _of_cuda_11("nvjpeg", library("nvjpeg", "11"), release=11, read="11.9.0.86"),
    _of_cuda_11(
        "npp",
        library("nppc", "11"),
        *(library(f"npp{part}", "11", needs="libnppc.so.11") for part in NPP_PARTS),
        release=11,
        read="11.8.0.86",
    ),
    _of_cuda_11("nccl", library("nccl", "2"), release=2, read="2.21.5"),
    _of_cuda_11(
        "nvshmem",
        library("nvshmem", sonames="libnvshmem_host.so.3", opens="nvshmem_*.so.3"),
        release=3,
        read="3.2.5",
    ),
    _of_cuda_11(
        "cudnn",
        library("cudnn", sonames=_CUDNN_9, opens=_CUDNN_9, may_open="libcublasLt.so.11"),
        release=9,
        read="9.5.0.50",
        brings="nvidia-cublas-cu11",
    ),
    *(
        wheel(
            f"nvidia-cudnn-cu{major}",
            library(
                "cudnn",
                sonames=_CUDNN_8,
                opens=_CUDNN_8,
                may_open=f"libcublas.so.{major} libcublasLt.so.{major}",
            ),
            folder="nvidia/cudnn/lib",
            bounds=">=8,<9",
            read=read,
            brings=f"nvidia-cublas-cu{major} nvidia-cuda-nvrtc-cu{major}",
            majors=(major,),
        )
        for major, read in ((11, "8.9.6.50"), (12, "8.9.7.29"))
    ),
    wheel(
        "cutensor-cu11",
        library(
            "cutensor",
            "2",
            needs="libcublasLt.so.11",
            may_open="libnvrtc.so.11.2",
            lost="libnvrtc.so.11.2",
        ),
        library("cutensorMg", "2", needs="libcutensor.so.2"),
        folder="cutensor/lib",
        bounds=">=2,<3",
        majors=(11,),
        read="2.2.0",
    ),
    wheel(
        "cutensornet-cu11",
        library("cutensornet", "2", needs="libcutensor.so.2 libcublas.so.11 libcusolver.so.11"),
        folder="cuquantum/lib",
        bounds=">=2,<3",
        majors=(11,),
        read="2.8.0",
        brings="cutensor-cu11",
    ),
    wheel(
        "custatevec-cu11",
        library("custatevec", "1", needs="libcublas.so.11 libcublasLt.so.11"),
        folder="cuquantum/lib",
        bounds=">=1,<2",
        majors=(11,),
        read="1.9.0",
    ),
    *(
        wheel(
            f"tensorrt-cu{major}-libs",
            library("nvinfer", sonames=f"libnvinfer*.so.{release} libnvonnxparser.so.{release}"),
            folder="tensorrt_libs",
            bounds=f">={release},<{release + 1}",
            read="",
            majors=(major,),
        )
        for release, majors in ((10, (11, 12, 13)), (11, (12, 13)))
        for major in majors
    ),
)
