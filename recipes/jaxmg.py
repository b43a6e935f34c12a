"""jaxmg: multi-GPU dense linear algebra (cuSOLVERMg) for JAX, the generation built with CMake."""

from cuwheel import GIB, MIB, Archive, CMake, GitCommit, Link, Patch, Recipe, Resource, Smoke

RECIPE = Recipe(
    name="jaxmg",
    version="0.0.2",
    license="Apache-2.0",
    homepage="https://github.com/flatironinstitute/jaxmg",
    maintainers=("cuwheel-maintainers",),
    # No tag is known for this generation. The sdist on the package index holds ready libraries.
    source=GitCommit(
        repository="https://github.com/flatironinstitute/jaxmg",
        commit="c301dd9a204afbdbe7ecd9fbdd4a73f7cc6f9822",
    ),
    toolkits=("12.8",),
    never_built=("12.8",),  # upstream's source and conda-forge's files were out of reach
    archs=("70", "80", "90", "100", "120"),
    ptx="last",
    python="any",  # ctypes, not the C API: one wheel serves every Python
    requires_python=">=3.10,<3.13",
    patches=(
        Patch(file="0001-build-from-what-is-given.patch", why="it downloads, and has fixed archs"),
    ),
    resources=(
        Resource(
            name="CPM.cmake",
            source=Archive(
                url="https://github.com/cpm-cmake/CPM.cmake/releases/download/v0.42.0/CPM.cmake",
                sha256="2020b4fc42dba44817983e06342e682ecfc3d2f484a581f11cc5731fbe4dce8a",
            ),
            to="CPM.cmake",
            unpack=False,
            why="the package manager that would download the others",
        ),
        Resource(
            name="abseil-cpp",
            source=Archive(
                url="https://github.com/abseil/abseil-cpp/releases/download/20250512.1/abseil-cpp-20250512.1.tar.gz",
                sha256="9b7a064305e9fd94d124ffa6cc358592eb42b5da588fb4e07d09254aa40086db",
            ),
            to="absl",
            why="status and strings, linked in",
        ),
        Resource(
            name="jax",
            source=Archive(
                url="https://github.com/jax-ml/jax/archive/refs/tags/jax-v0.6.2.tar.gz",
                sha256="d46cb98795f2c1ccdf2b081e02d9d74b659063679a80beb001ad17d482a60e17",
            ),
            to="jax",
            why="one file of jaxlib's GPU code is compiled into each library",
        ),
        # No hash of an archive of it is known; the commit is upstream's own pin.
        Resource(
            name="XLA",
            source=GitCommit(
                repository="https://github.com/openxla/xla",
                commit="8f3d7099bc30c2912357c770ca25172fad9ae302",
            ),
            to="XLA",
            why="the headers of its foreign function interface",
        ),
    ),
    requires=(
        *("cmake", "ninja", "setuptools>=61", "wheel"),
        # Compiled and linked against: the index that the conda lock was solved from has none for
        # 12.8.
        "nvidia-cuda-cupti-cu12==12.8.90",
    ),
    oldest_gcc=11,  # XLA's headers are C++20
    build=CMake(
        install=True,  # its pyproject.toml only packs src/jaxmg/bin
        define={
            # Local package override, in the README of CPM.cmake.
            "CPM_absl_SOURCE": "{resources}/absl",
            "CPM_jax_SOURCE": "{resources}/jax",
            "CPM_XLA_SOURCE": "{resources}/XLA",
            "CMAKE_PROJECT_JaxSolve_INCLUDE": "cuwheel.cmake",
            "CUWHEEL_CPM": "{resources}/CPM.cmake",
            "CUWHEEL_CUPTI": "{site_packages}/nvidia/cuda_cupti/include",
            "CUDA_cupti_LIBRARY": "{site_packages}/nvidia/cuda_cupti/lib/libcupti.so.12",
        },
        env={"CUDA_ROOT": "{cuda_home}", "CUDNN_ROOT": "{cuda_home}"},
    ),
    # The eight that upstream excludes when it repairs (the driver's goes without saying), and what
    # the libraries of the sdist 0.0.2 need beside them. Upstream's list names libcusolver.so.12,
    # but that is CUDA 13's; CUDA 12's is libcusolver.so.11.
    link=Link(
        *("cudart", "cublas", "cublasLt", "cupti", "cusolver", "cusolverMg", "cudnn"),
        *("cusparse", "nvJitLink", "driver"),
    ),
    libstdcxx="static",  # JAX calls them through XLA's C interface; for manylinux_2_28
    smoke=Smoke(
        imports=("jaxmg", "importlib.metadata"),
        # The release whose sources it is compiled with; both extras mean NVIDIA's wheels.
        requires=("jax[cuda,cuda12]==0.6.2",),
        call="importlib.metadata.version('jaxmg')",
    ),
    memory_per_job=3 * GIB,
    disk=6 * GIB,
    max_wheel_size=40 * MIB,
)
