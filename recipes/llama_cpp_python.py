"""llama-cpp-python: Python bindings for the llama.cpp library."""

from cuwheel import GIB, MIB, CMake, Link, Recipe, Sdist, Smoke

RECIPE = Recipe(
    name="llama-cpp-python",
    version="0.3.36",
    # The bindings and llama.cpp; xxHash, which is linked into libmtmd.
    license="MIT AND BSD-2-Clause",
    homepage="https://github.com/abetlen/llama-cpp-python",
    maintainers=("cuwheel-maintainers",),
    # It holds llama.cpp, which upstream's repository has as a submodule.
    source=Sdist(
        project="llama-cpp-python",
        sha256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    ),
    toolkits=("12.4", "13.0"),
    # ggml compiles 120 as 120a, whose instructions for 4-bit floats it needs.
    archs={
        "12.4": ("75", "80", "90"),
        "13.0": ("75", "80", "90", "100", "120a"),
    },
    python="any",
    requires=("cmake>=3.21", "ninja", "scikit-build-core[pyproject]>=0.9.2"),
    build=CMake(
        define={
            # Else a library is in the wheel once for each of its names (wheels have no links).
            "CMAKE_PLATFORM_NO_VERSIONED_SONAME": "ON",
            "GGML_CCACHE": "OFF",
            "GGML_CUDA": "ON",
            # Multi-GPU copies go without it; it would be taken from wherever it is found.
            "GGML_CUDA_NCCL": "OFF",
            # Off, the CPU's part is compiled for AVX2 and FMA; on, for the building machine.
            "GGML_NATIVE": "OFF",
            # ggml has threads of its own; a second libgomp beside PyTorch's makes trouble.
            "GGML_OPENMP": "OFF",
            # For downloads of models by llama.cpp's programs, which the wheel hasn't.
            "LLAMA_OPENSSL": "OFF",
        }
    ),
    link=Link("cudart", "cublas", "driver"),
    smoke=Smoke(
        imports=("llama_cpp",),
        # What the package requires when it runs.
        requires=("diskcache>=5.6.1", "jinja2>=2.11.3", "numpy>=1.20", "typing-extensions>=4.5"),
    ),
    # CMake installs a second copy for C++ programs at the top level of site-packages.
    leave_out=("include/*", "lib/*"),
    memory_per_job=2 * GIB,
    max_wheel_size=400 * MIB,
)
