"""Small CUDA projects, with the noise that real ones make."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_KERNEL = """
#include <cuda_runtime.h>
#include <cstdio>

namespace {{
template <typename T>
__global__ void {name}_kernel(T *out, const T *in, int n, T factor) {{
    int unused = 0;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor;
}}
}}

int launch_{name}(float *out, const float *in, int n) {{
    cudaError_t error = cudaSuccess;
    {name}_kernel<float><<<(n + 255) / 256, 256>>>(out, in, n, 2.0f);
    if ((error = cudaGetLastError()) != cudaSuccess) printf("error: %s\\n", "{name} failed");
    return error;
}}
"""
_STEMS = (
    *("error_codes", "scatter_add", "gather_rows", "layer_norm_fwd", "layer_norm_bwd", "softmax"),
    *("fail_safe_reduce", "rotary_embed", "top_k", "bias_gelu", "cumsum", "fused_adam"),
)
_PYTHON = (
    *("_version", "ops", "functional", "errors", "testing/__init__", "testing/test_error"),
    *("modules/__init__", "modules/linear", "modules/norm", "utils/__init__", "utils/fatal"),
)


def kernel_names(count: int) -> list[str]:
    """Names of kernel files; some of them look like failures."""
    return [f"{_STEMS[i % len(_STEMS)]}_{i // len(_STEMS)}" for i in range(count)]


def kernels(names: Iterable[str], folder: str = "fastops/csrc") -> dict[str, str]:
    """A .cu file for each name; each warns of an unused variable."""
    return {f"{folder}/{name}.cu": _KERNEL.format(name=name) for name in names}


def modules(package: str = "fastops") -> dict[str, str]:
    """The Python part of a package."""
    files = {f"{package}/{package}/{name}.py": f'"""{name}."""\n' for name in _PYTHON}
    return files | {f"{package}/{package}/__init__.py": ""}


def pyproject(*requires: str, backend: str = "setuptools.build_meta", extra: str = "") -> str:
    """A pyproject.toml of the package `fastops`."""
    quoted = ", ".join(f'"{one}"' for one in requires)
    build = f'[build-system]\nrequires = [{quoted}]\nbuild-backend = "{backend}"\n'
    return f'{build}\n[project]\nname = "fastops"\nversion = "0.4.1"\n{extra}'


def torch_setup(sources: Iterable[str], **flags: list[str]) -> str:
    """A setup.py with one extension built by torch."""
    listed = [f"csrc/{name}" for name in sources]
    return f"""\
import os, subprocess
from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

subprocess.run(["git", "rev-parse", "HEAD"])
setup(
    name="fastops",
    version="0.4.1",
    packages=find_packages(),
    ext_modules=[
        CUDAExtension("fastops._C", {listed!r}, extra_compile_args={flags!r}),
    ],
    cmdclass={{"build_ext": BuildExtension}},
)
"""


def nvcc_setup(command: str, link: str = "", libraries: str = "") -> str:
    """A setup.py that calls nvcc by itself for csrc/*.cu, then links a module of csrc/module.c."""
    return f"""\
import glob, os, subprocess
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

class BuildCuda(build_ext):
    def build_extension(self, ext):
        os.makedirs(self.build_temp, exist_ok=True)
        for source in sorted(glob.glob("csrc/*.cu")):
            target = os.path.join(self.build_temp, os.path.basename(source) + ".o")
            self.spawn({command.split()!r} + ["-c", source, "-o", target])
            ext.extra_objects.append(target)
        super().build_extension(ext)

setup(
    name="fastops",
    version="0.4.1",
    packages=find_packages(),
    ext_modules=[
        Extension(
            "fastops._C",
            ["csrc/module.c"],
            libraries={libraries.split()!r},
            extra_link_args={link.split()!r},
        )
    ],
    cmdclass={{"build_ext": BuildCuda}},
)
"""


MODULE = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&module); }
"""


def cmake_lists(sources: Iterable[str], *, minimum: str = "3.18", extra: str = "") -> str:
    """A CMakeLists.txt of a library of .cu files."""
    listed = "\n  ".join(sources)
    return f"""\
cmake_minimum_required(VERSION {minimum})
project(fastops LANGUAGES CXX CUDA)
find_package(Threads REQUIRED)
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("#include <no_such_header.h>\\nint main() {{}}" HAVE_NO_SUCH_HEADER)
{extra}
add_library(fastops STATIC
  {listed})
"""
