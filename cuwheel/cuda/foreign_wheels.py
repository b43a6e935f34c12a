"""Wheels of NVIDIA's libraries that wheels of others need, and that no recipe here can link.

CUDA 11, cuDNN 8 and TensorRT. Rows as in `cuwheel.cuda.nvidia_wheels`; `bounds` are the releases
that have the names of the row.

TensorRT's own wheels lie on NVIDIA's index alone: its rows were read from its sources (NVIDIA/
TensorRT on GitHub, `python/packaging/libs_wheel`), and have no `read`.
"""

from __future__ import annotations

from cuwheel.cuda.nvidia_wheels import NPP_PARTS, NvidiaLibrary, NvidiaWheel

_CUDA_11 = (11,)
_CUDNN_8 = "libcudnn*.so.8"
_CUDNN_9 = "libcudnn*.so.9"

FOREIGN_WHEELS = (
    NvidiaWheel(
        name="nvidia-cuda-runtime-cu11",
        folder="nvidia/cuda_runtime/lib",
        bounds=">=11,<12",
        read="11.7.99, 11.8.89",
        libraries=(NvidiaLibrary(name="cudart", sonames=("libcudart.so.11.0",)),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-cublas-cu11",
        folder="nvidia/cublas/lib",
        bounds=">=11,<12",
        read="11.11.3.6",
        libraries=(
            NvidiaLibrary(
                name="cublas", sonames=("libcublas.so.11",), needs=("libcublasLt.so.11",)
            ),
            NvidiaLibrary(name="cublasLt", sonames=("libcublasLt.so.11",)),
            NvidiaLibrary(name="nvblas", sonames=("libnvblas.so.11",), needs=("libcublas.so.11",)),
        ),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-cusparse-cu11",
        folder="nvidia/cusparse/lib",
        bounds=">=11,<12",
        read="11.7.5.86",
        libraries=(NvidiaLibrary(name="cusparse", sonames=("libcusparse.so.11",)),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-cusolver-cu11",
        folder="nvidia/cusolver/lib",
        bounds=">=11,<12",
        read="11.4.0.1, 11.4.1.48",
        brings=("nvidia-cublas-cu11",),
        libraries=tuple(
            NvidiaLibrary(
                name=name,
                sonames=(f"lib{name}.so.11",),
                needs=("libcublas.so.11", "libcublasLt.so.11"),
            )
            for name in ("cusolver", "cusolverMg")
        ),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-curand-cu11",
        folder="nvidia/curand/lib",
        bounds=">=10,<11",
        read="10.3.0.86",
        libraries=(NvidiaLibrary(name="curand", sonames=("libcurand.so.10",)),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-cufft-cu11",
        folder="nvidia/cufft/lib",
        bounds=">=10,<11",
        read="10.9.0.58",
        libraries=(NvidiaLibrary(name="cufft", sonames=("libcufft.so.10", "libcufftw.so.10")),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-cuda-nvrtc-cu11",
        folder="nvidia/cuda_nvrtc/lib",
        bounds=">=11,<12",
        read="11.7.99, 11.8.89",
        libraries=(
            NvidiaLibrary(
                name="nvrtc",
                sonames=("libnvrtc.so.11.2",),  # of 11.2 and all later
                opens=("libnvrtc-builtins.so.11.*",),
            ),
            NvidiaLibrary(name="nvrtc-builtins", sonames=("libnvrtc-builtins.so.11.*",)),
        ),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-nvtx-cu11",
        folder="nvidia/nvtx/lib",
        bounds=">=11,<12",
        read="11.7.91, 11.8.86",
        libraries=(NvidiaLibrary(name="nvtx", sonames=("libnvToolsExt.so.1",)),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-cuda-cupti-cu11",
        folder="nvidia/cuda_cupti/lib",
        bounds=">=11,<12",
        read="11.8.87",
        libraries=(NvidiaLibrary(name="cupti", sonames=("libcupti.so.11.*",)),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-nvjpeg-cu11",
        folder="nvidia/nvjpeg/lib",
        bounds=">=11,<12",
        read="11.9.0.86",
        libraries=(NvidiaLibrary(name="nvjpeg", sonames=("libnvjpeg.so.11",)),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-npp-cu11",
        folder="nvidia/npp/lib",
        bounds=">=11,<12",
        read="11.8.0.86",
        libraries=(
            NvidiaLibrary(name="nppc", sonames=("libnppc.so.11",)),
            *(
                NvidiaLibrary(
                    name=f"npp{part}", sonames=(f"libnpp{part}.so.11",), needs=("libnppc.so.11",)
                )
                for part in NPP_PARTS
            ),
        ),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-nccl-cu11",
        folder="nvidia/nccl/lib",
        bounds=">=2,<3",
        read="2.21.5",
        libraries=(NvidiaLibrary(name="nccl", sonames=("libnccl.so.2",)),),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-nvshmem-cu11",
        folder="nvidia/nvshmem/lib",
        bounds=">=3,<4",
        read="3.2.5",
        libraries=(
            NvidiaLibrary(
                name="nvshmem", sonames=("libnvshmem_host.so.3",), opens=("nvshmem_*.so.3",)
            ),
        ),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="nvidia-cudnn-cu11",
        folder="nvidia/cudnn/lib",
        bounds=">=9,<10",
        read="9.5.0.50",
        brings=("nvidia-cublas-cu11",),
        libraries=(
            NvidiaLibrary(
                name="cudnn",
                sonames=(_CUDNN_9,),
                opens=(_CUDNN_9,),
                may_open=("libcublasLt.so.11",),
            ),
        ),
        majors=_CUDA_11,
    ),
    *(
        NvidiaWheel(
            name=f"nvidia-cudnn-cu{major}",
            folder="nvidia/cudnn/lib",
            bounds=">=8,<9",
            read=read,
            brings=(f"nvidia-cublas-cu{major}", f"nvidia-cuda-nvrtc-cu{major}"),
            libraries=(
                NvidiaLibrary(
                    name="cudnn",
                    sonames=(_CUDNN_8,),
                    opens=(_CUDNN_8,),
                    may_open=(f"libcublas.so.{major}", f"libcublasLt.so.{major}"),
                ),
            ),
            majors=(major,),
        )
        for major, read in ((11, "8.9.6.50"), (12, "8.9.7.29"))
    ),
    NvidiaWheel(
        name="cutensor-cu11",
        folder="cutensor/lib",
        bounds=">=2,<3",
        read="2.2.0",
        libraries=(
            NvidiaLibrary(
                name="cutensor",
                sonames=("libcutensor.so.2",),
                needs=("libcublasLt.so.11",),
                may_open=("libnvrtc.so.11.2",),
                lost=(("libnvrtc.so.11.2", ""),),
            ),
            NvidiaLibrary(
                name="cutensorMg", sonames=("libcutensorMg.so.2",), needs=("libcutensor.so.2",)
            ),
        ),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="cutensornet-cu11",
        folder="cuquantum/lib",
        bounds=">=2,<3",
        read="2.8.0",
        brings=("cutensor-cu11",),
        libraries=(
            NvidiaLibrary(
                name="cutensornet",
                sonames=("libcutensornet.so.2",),
                needs=("libcutensor.so.2", "libcublas.so.11", "libcusolver.so.11"),
            ),
        ),
        majors=_CUDA_11,
    ),
    NvidiaWheel(
        name="custatevec-cu11",
        folder="cuquantum/lib",
        bounds=">=1,<2",
        read="1.9.0",
        libraries=(
            NvidiaLibrary(
                name="custatevec",
                sonames=("libcustatevec.so.1",),
                needs=("libcublas.so.11", "libcublasLt.so.11"),
            ),
        ),
        majors=_CUDA_11,
    ),
    *(
        NvidiaWheel(
            name=f"tensorrt-cu{major}-libs",
            folder="tensorrt_libs",
            bounds=f">={release},<{release + 1}",
            read="",
            libraries=(
                NvidiaLibrary(
                    name="nvinfer",
                    sonames=(f"libnvinfer*.so.{release}", f"libnvonnxparser.so.{release}"),
                ),
            ),
            majors=(major,),
        )
        for release, majors in ((10, (11, 12, 13)), (11, (12, 13)))
        for major in majors
    ),
)
