"""bitsandbytes: 8-bit optimizers and k-bit quantization for PyTorch."""

from cuwheel import GIB, MIB, Archive, CMake, LibraryPerCuda, Link, Recipe, Smoke

RECIPE = Recipe(
    name="bitsandbytes",
    version="0.49.1",
    license="MIT",
    homepage="https://github.com/bitsandbytes-foundation/bitsandbytes",
    maintainers=("cuwheel-maintainers",),
    # Not on the package index: there are only wheels. The hash is the one that conda-forge pins.
    source=Archive(
        url="https://github.com/bitsandbytes-foundation/bitsandbytes/archive/refs/tags/"
        "{version}.tar.gz",
        sha256="522afad2d62234ae0d3a47d14786c19111ca516cd4b1e2b11c58dc59e4d282d9",
    ),
    toolkits=("12.1", "12.2", "12.4", "12.8", "13.0"),
    # Upstream's source and conda-forge's files were out of reach.
    never_built=("12.1", "12.2", "12.4", "12.8", "13.0"),
    # Those of upstream's own wheels. No PTX: nvcc is asked for that of the last arch, but the
    # device link of separately compiled code leaves only machine code, in upstream's wheels too.
    archs={
        "12.1": ("60", "70", "75", "80", "86", "89", "90"),
        "12.2": ("60", "70", "75", "80", "86", "89", "90"),
        "12.4": ("60", "70", "75", "80", "86", "89", "90"),
        "12.8": ("70", "75", "80", "86", "89", "90", "100", "120"),
        "13.0": ("75", "80", "86", "89", "90", "100", "120"),
    },
    python="any",  # ctypes, not the C API: one wheel serves every Python
    requires=(
        *("cmake", "ninja", "scikit-build-core"),
        *("setuptools>=77.0.3", "trove-classifiers>=2025.8.6.13"),
    ),
    build=CMake(
        define={
            "COMPUTE_BACKEND": "cuda",
            # A check of its own: configure fails if nvcc is of another release.
            "CUDA_VERSION": "{toolkit_tag}",
            # It sets CMAKE_CUDA_ARCHITECTURES from this, whatever that was.
            "COMPUTE_CAPABILITY": "{archs}",
        }
    ),
    # nvJitLink: CMake links what cuSPARSE itself needs, and not every linker leaves it out again.
    link=Link("cudart", "cublas", "cublasLt", "cusparse", "nvJitLink"),
    libstdcxx="static",  # its interface is plain C
    smoke=Smoke(imports=("bitsandbytes",), requires=("numpy", "packaging", "torch==2.11.0")),
    # `get_cuda_bnb_library_path` and `get_native_library` in its cextension.py. Without a GPU the
    # import touches no library.
    library_per_cuda=LibraryPerCuda(
        file="bitsandbytes/libbitsandbytes_cuda{toolkit_tag}.so",
        framework="torch",
        variable="BNB_CUDA_VERSION",
        without_gpu="libbitsandbytes_cpu.so",
        check="bitsandbytes",
        success="SUCCESS!",
        explained="bnb-native-lib-missing",
    ),
    memory_per_job=4 * GIB,
    max_wheel_size=60 * MIB,
)
