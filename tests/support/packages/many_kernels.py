"""The tiny packages with several kernels, some of which a program of the same build writes."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.engine import PACKAGES

KERNELS = 4
_KERNEL = """\
#include <cuda_runtime.h>
__global__ void fill_{number}(int *values) {{ values[threadIdx.x] = {number}; }}
int start_{number}(int *values) {{
  fill_{number}<<<1, 1>>>(values);
  return cudaGetLastError();
}}
"""
_GENERATOR = """\
#include <fstream>
int main(int, char **arguments) {
  std::ofstream made(arguments[1]);
  made << "__global__ void generated(int *v) { *v = 7; }\\n";
  made << "int start_generated(int *v) { generated<<<1, 1>>>(v); return 0; }\\n";
}
"""
_TOOL = """\
__global__ void count(int *values) { values[threadIdx.x] += 1; }
int main() { count<<<1, 1>>>(nullptr); }
"""
_GENERATED = """
add_executable(tool src/tool.cu)
add_executable(generate src/generate.cpp)
add_custom_command(OUTPUT generated.cu COMMAND generate generated.cu DEPENDS generate)
target_sources(tiny_skbuild PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated.cu")
"""


def with_kernels(package: str, folder: Path, *, generated: bool = False) -> Path:
    """Copy a tiny package, CMake's or setuptools', and add kernels to it; return its source."""
    source = folder / package
    shutil.copytree(PACKAGES / package, source)
    names = [f"src/kernel_{number}.cu" for number in range(KERNELS)]
    for number, name in enumerate(names):
        (source / name).write_text(_KERNEL.format(number=number))
    if package == "tiny_skbuild":
        _replace(source / "CMakeLists.txt", "src/scale.cu", " ".join(("src/scale.cu", *names)))
    else:
        _replace(source / "setup.py", '"src/add.cu"', ", ".join(map(repr, ("src/add.cu", *names))))
    if generated:
        (source / "src/generate.cpp").write_text(_GENERATOR)
        (source / "src/tool.cu").write_text(_TOOL)
        with (source / "CMakeLists.txt").open("a") as stream:
            stream.write(_GENERATED)
    return source


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))
