"""bitsandbytes: 8-bit optimizers and k-bit quantization for PyTorch."""

from cuwheel import Archive, CMake, Link, Recipe, Smoke

RECIPE = Recipe(
    name="bitsandbytes",
    version="0.49.1",
    license="MIT",
    homepage="https://github.com/bitsandbytes-foundation/bitsandbytes",
    maintainers=("cuwheel",),
    # Not on the package index: there are only wheels. The hash is the one that conda-forge pins.
    source=Archive(
        url="https://github.com/bitsandbytes-foundation/bitsandbytes/archive/refs/tags/0.49.1.tar.gz",
        sha256="522afad2d62234ae0d3a47d14786c19111ca516cd4b1e2b11c58dc59e4d282d9",
    ),
    toolkits=("12.1", "12.2", "12.4", "12.8", "13.0"),
    # The archs of upstream's own wheels.
    archs=("75", "80", "86", "89", "90"),
    more_archs={
        "12.1": ("60", "70"),
        "12.2": ("60", "70"),
        "12.4": ("60", "70"),
        "12.8": ("70", "100", "120"),
        "13.0": ("100", "120"),
    },
    # No PTX: nvcc is asked for that of the last arch, but the device link of separately compiled
    # code leaves only machine code, in upstream's wheels too.
    python="any",  # ctypes, not the C API: one wheel serves every Python
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
    # Without a GPU the import doesn't touch the library.
    smoke=Smoke(
        imports=("bitsandbytes",),
        libraries=("bitsandbytes/libbitsandbytes_cuda{toolkit_tag}.so",),
    ),
    memory_per_job=4 << 30,
    max_wheel_size=60 << 20,
)
