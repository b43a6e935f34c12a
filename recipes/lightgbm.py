"""lightgbm: LightGBM's gradient boosting of decision trees, on the CPU and on GPUs."""

from cuwheel import CMake, Link, Patch, Recipe, Sdist, Smoke

RECIPE = Recipe(
    name="lightgbm",
    version="4.7.0",
    # LightGBM, fmt, json11; Eigen; its bfloat16, nanoarrow; fast_double_parser; GCC's OpenMP.
    license="MIT AND MPL-2.0 AND Apache-2.0 AND (Apache-2.0 OR BSL-1.0) AND "
    "GPL-3.0-or-later WITH GCC-exception-3.1",
    homepage="https://github.com/lightgbm-org/LightGBM",
    maintainers=("cuwheel-maintainers",),
    source=Sdist(
        project="lightgbm",
        sha256="f8e20f682c9aabd000bcf4a7ed8aa6f473c1adfecccae34ec24e823d156f4af0",
    ),
    toolkits=("12.4", "13.0"),
    # No PTX: the device link of separately compiled code leaves only machine code.
    archs={"12.4": ("60", "70", "80", "90"), "13.0": ("75", "80", "90", "100", "120")},
    python="any",  # ctypes, not the C API: one wheel serves every Python
    patches=(
        Patch(file="0001-drop-lineinfo.patch", why="it stores the build's paths and times"),
        Patch(file="0002-find-header-of-nccl.patch", why="one file is compiled without its folder"),
    ),
    # CUDA 13's oldest NCCL: the wheel goes with those that PyTorch pins.
    requires=("cmake>=3.28", "ninja", "nvidia-nccl-cu{cuda}==2.27.7", "scikit-build-core>=0.11.0"),
    build=CMake(
        define={
            "USE_CUDA": "ON",
            "BUILD_WITH_SHARED_NCCL": "ON",
            "USE_NCCL_LIB_PATH": "ON",  # else it looks for a libnccl.so
            "NCCL_INCLUDE_DIR": "{site_packages}/nvidia/nccl/include",
            "NCCL_LIBRARY": "{site_packages}/nvidia/nccl/lib/libnccl.so.2",
        }
    ),
    link=Link("nccl", bundles=("libgomp",)),  # CMake links the CUDA runtime statically
    smoke=Smoke(
        imports=("lightgbm",), requires=("narwhals>=1.15", "numpy", "scipy"), script="lightgbm.py"
    ),
)
