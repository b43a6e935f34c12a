"""Failures for `explain`, made for real, and what their printed fixes say to type."""

from __future__ import annotations

from tests.e2e.check.explained import building, cuda, loading, machine, packages

TRIALS = (
    *building.TRIALS,
    *cuda.TRIALS,
    *loading.TRIALS,
    *packages.TRIALS,
    *machine.TRIALS,
)

_GPU = "it needs a GPU and its driver, or code that runs on one"
_WINDOWS = "it needs Windows and Microsoft's compiler"
_CUDA_TORCH = "it needs PyTorch, mostly one for CUDA, or JAX with its CUDA packages"
_OLD_NVCC = "it needs an nvcc, a GCC, a glibc or a CCCL of another release than the tests have"
_CONDA = "it needs conda or its channels"
_PLACE = "it needs a registry, a scheduler or the distribution's packages"
NOT_MADE = {
    **dict.fromkeys(
        (
            *("cudnn-version-mismatch", "cuda-kernel-fault", "cute-dsl-compile-error"),
            *("docker-no-gpu-runtime", "driver-library-mismatch", "driver-module-not-loaded"),
            *(
                "driver-too-old",
                "fabric-manager-not-running",
                "gpu-hardware-fault",
                "gpu-out-of-memory",
            ),
            *("gpu-too-old-for-package", "invalid-device-function", "kernel-launch-refused"),
            *("nccl-call-failed", "no-cuda-device", "no-kernel-image", "nvrtc-arch-unsupported"),
            *("ptx-unsupported-toolchain", "triton-no-c-compiler", "triton-out-of-resources"),
            *("triton-ptxas-not-found", "triton-ptxas-too-old", "xla-libdevice-missing"),
        ),
        _GPU,
    ),
    **dict.fromkeys(
        (
            *("app-control-blocked", "gcc-flag-passed-to-msvc", "msvc-build-tools-missing"),
            *("msvc-cl-not-found", "msvc-no-cuda-toolset", "msvc-runtime-missing"),
            *("msvc-std-ambiguous", "msvc-stl-mismatch", "msvc-too-new-for-cuda"),
            *("msvc-traditional-preprocessor", "msvc-unsupported-version", "msvc-vcvars-failed"),
        ),
        _WINDOWS,
    ),
    **dict.fromkeys(
        (
            *("arch-list-empty-no-gpu", "bnb-native-lib-missing", "jax-plugin-mismatch"),
            *(
                "extension-without-sources",
                "torch-api-removed",
                "torch-cuda-mismatch",
                "torchvision-mismatch",
            ),
        ),
        _CUDA_TORCH,
    ),
    **dict.fromkeys(
        (
            *("gcc11-parameter-pack", "glibc-headers-too-new-for-nvcc"),
            *("host-compiler-too-new-float32", "missing-stdcxxfs"),
            *("nvlink-toolkit-mismatch", "thrust-cub-version-conflict"),
        ),
        _OLD_NVCC,
    ),
    **dict.fromkeys(("conda-cuda-virtual-package", "conda-solve-conflict"), _CONDA),
    **dict.fromkeys(
        (
            *("container-image-absent", "slurm-request-refused", "system-library-missing"),
            "upload-platform-tag-rejected",
        ),
        _PLACE,
    ),
    "compiler-crash": "it needs a fault in a compiler",
    "nvlink-missing-libnvvm": "its fix searches the whole disk",
    "build-takes-hours": "it takes hours, and nothing fails",
    "compile-exceeds-memory": "it needs a build of cuwheel in a small cgroup",
    "native-libraries-mismatch": "it needs two releases of packages with compiled libraries",
    "rust-build-script-failed": "it needs crates from an index",
}
"""Why a cause isn't made, by its slug."""
