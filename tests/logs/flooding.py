"""Failures in the midst of thousands of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.logs.cases import WENT_WELL, case
from tests.logs.parts import TOOLKIT, MissingPartError
from tests.logs.projects import MODULE, cmake_lists, kernel_names, modules, nvcc_setup

if TYPE_CHECKING:
    from tests.logs.box import Box

_PTXAS = 'set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -Xptxas=-v -lineinfo")'
_WIDTHS = (32, 64, 96, 128, 160, 192, 224, 256)
_ARCHS = '"-DCMAKE_CUDA_ARCHITECTURES=80;90"'


def _wide(name: str) -> str:
    """A file with one kernel for each width, so that ptxas has much to tell."""
    kernel = f"""\
template <int kWidth> __global__ void {name}_kernel(float *out, const float *in, int n) {{
    int errors = 0;
    int i = blockIdx.x * kWidth + threadIdx.x;
    if (i < n) out[i] = in[i] * kWidth;
}}
"""
    return kernel + "".join(
        f"template __global__ void {name}_kernel<{width}>(float *, const float *, int);\n"
        for width in _WIDTHS
    )


def _ninja(box: Box, names: list[str], *, extra: str = _PTXAS) -> str:
    """A project of wide kernels; answers the command that builds it."""
    text = cmake_lists([f"csrc/{name}.cu" for name in names], extra=extra)
    box.write({f"fastops/csrc/{name}.cu": _wide(name) for name in names})
    box.write({"fastops/CMakeLists.txt": text})
    return f"cmake -S fastops -B build -G Ninja {_ARCHS} && ninja -C build -v"


@case("cuda13-cccl-api-removed", "ninja-long", r'error: namespace "cub" has no member "Sum"')
def cub_sum(box: Box) -> None:
    """One of 64 files uses cub::Sum; ninja goes on with all the others."""
    build = _ninja(box, kernel_names(64))
    text = """\
        #include <cub/block/block_scan.cuh>
        __global__ void scan(int *data) {
            using Scan = cub::BlockScan<int, 128>;
            __shared__ typename Scan::TempStorage storage;
            Scan(storage).InclusiveScan(data[threadIdx.x], data[threadIdx.x], cub::Sum());
        }
        """
    box.write({"fastops/csrc/cumsum_2.cu": text})
    box.record(f"{build} -k 0")


@case("nvcc-unknown-option", "pip-long", r"nvcc fatal\s+: Unknown option '-Xptaxs'")
def misspelt_option(box: Box) -> None:
    """setup.py copies thousands of bundled headers before nvcc refuses an option."""
    box.add_python("3.11", "setuptools==80.9.0", "wheel")
    text = nvcc_setup(f"{TOOLKIT}/bin/nvcc -O2 -Xptaxs -v -arch=sm_90")
    text = text.replace("version=", "include_package_data=True,\n    version=")
    box.write({"fastops/setup.py": text, "fastops/csrc/module.c": MODULE, **modules()})
    box.write({f"fastops/csrc/{name}.cu": _wide(name) for name in kernel_names(3)})
    box.write({"fastops/MANIFEST.in": "recursive-include fastops *.h *.hpp\n"})
    box.write(dict.fromkeys(_headers(), "#pragma once\n"))
    box.record("pip install -v --no-build-isolation ./fastops")


def _headers() -> list[str]:
    """Files as a bundled CUTLASS has them."""
    parts = ("gemm", "conv", "epilogue", "transform", "error_policy")
    return [
        f"fastops/fastops/third_party/include/{part}/device/{kind}_sm{arch}_tile{i}.hpp"
        for part in parts
        for kind in ("mma", "fail_fast_copy", "default_gemm_universal")
        for arch in (80, 89, 90, 100)
        for i in range(30)
    ]


@case("dependency-header-missing", "make-long", r"fatal error: nlohmann/json\.hpp: No such file")
def json_header(box: Box) -> None:
    """make -k: one file lacks a header while the others warn of thousands of things."""
    names = kernel_names(40)
    box.write({f"fastops/src/{name}.cpp": _warning_file(name) for name in names})
    text = "#include <cstdio>\n#include <nlohmann/json.hpp>\n" + _warning_file("config")
    box.write({"fastops/src/softmax_1.cpp": text})
    objects = " ".join(f"build/{name}.o" for name in names)
    make = f"all: {objects}\n\tar rcs build/libfastops.a {objects}\nbuild/%.o: src/%.cpp\n"
    make += "\t@mkdir -p build\n\tg++ -std=c++17 -O1 -Wall -Wextra -Wconversion -c $< -o $@\n"
    box.write({"fastops/Makefile": make})
    box.record("make -C fastops -k -j2", stamped=True)


def _warning_file(name: str) -> str:
    """Functions that GCC warns of."""
    return "".join(
        f"int {name}_error_{i}(long code, unsigned unused) {{ int failed; return code * {i}; }}\n"
        for i in range(14)
    )


@case(WENT_WELL, "ninja-long", r"error_codes")
def long_build(box: Box) -> None:
    """A long build that goes well, with ptxas telling of each kernel and files called error."""
    extra = _PTXAS.replace(
        "-lineinfo", "-Werror=cross-execution-space-call --expt-relaxed-constexpr"
    )
    if status := box.record(_ninja(box, kernel_names(24), extra=extra), stamped=True):
        raise MissingPartError(f"a build that should go well ended with {status}")
