"""Failures at configure time: CMake and Ninja."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.logs.cases import case
from tests.logs.parts import TOOLKIT
from tests.logs.projects import cmake_lists, kernel_names, kernels, modules, pyproject

if TYPE_CHECKING:
    from tests.logs.box import Box

_CONFIGURE = "cmake -S fastops -B fastops/build -DCMAKE_BUILD_TYPE=Release"
_FEW = kernel_names(5)
_HOST = """
add_library(host STATIC csrc/host.cpp)
set_target_properties(host PROPERTIES CXX_STANDARD 26 CXX_STANDARD_REQUIRED ON)
"""


def _project(box: Box, *, minimum: str = "3.18", extra: str = "") -> None:
    box.write(kernels(_FEW))
    listed = [f"csrc/{name}.cu" for name in _FEW]
    box.write({"fastops/CMakeLists.txt": cmake_lists(listed, minimum=minimum, extra=extra)})


def _wheel_project(box: Box, *, minimum: str = "3.18", cmake: str = "cmake>=3.26") -> None:
    _project(box, minimum=minimum)
    requires = ("scikit-build-core", cmake, "ninja")
    text = pyproject(*requires, backend="scikit_build_core.build")
    box.write({"fastops/pyproject.toml": text, **modules()})


@case("cmake-too-new", "pip-isolated", r"Compatibility with CMake < 3\.5 has been removed")
def cmake_too_new_pip(box: Box) -> None:
    """pip's isolated build takes CMake 4 for a project that asks for 3.1."""
    box.add_python("3.12")
    _wheel_project(box, minimum="3.1")
    box.record("pip install -v ./fastops")


@case("cmake-too-new", "uv-colours", r"Compatibility with CMake < 3\.5 has been removed")
def cmake_too_new_uv(box: Box) -> None:
    """The same through uv, which prints in colours what the build said."""
    box.add_python("3.11", "uv")
    _wheel_project(box, minimum="2.8.12")
    box.record("uv pip install --color always -v ./fastops 2>&1 | grep -v DEBUG")


@case("cmake-too-new", "build-stamped", r"Compatibility with CMake < 3\.5 has been removed")
def cmake_too_new_build(box: Box) -> None:
    """`python -m build` on a runner that puts the time before each line."""
    box.add_python("3.12", "build")
    _wheel_project(box, minimum="3.1")
    box.record("set -x; python -m build --wheel fastops", stamped=True)


@case("cmake-too-old", "system", r"CMake 3\.31 or higher is required\.  You are running")
def cmake_too_old(box: Box) -> None:
    """A project that asks for CMake 3.31 meets the distribution's."""
    _project(box, minimum="3.31")
    box.record(_CONFIGURE)


@case("cmake-too-old", "pip-no-isolation", r"Could not find CMake with version >=4\.1")
def cmake_too_old_pip(box: Box) -> None:
    """Without isolation, a pip build takes the CMake that is pinned in the environment."""
    box.add_python("3.12", "scikit-build-core", "ninja", "'cmake<4'")
    _wheel_project(box, minimum="4.1", cmake="cmake>=3.26")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("cmake-cuda-compiler-not-found", "no-toolkit", r"Failed to find nvcc|No CMAKE_CUDA_COMPILER")
def no_cuda_compiler(box: Box) -> None:
    """A machine without any CUDA toolkit."""
    box.add_python("3.12")
    box.hide(str(TOOLKIT))
    _wheel_project(box)
    box.record("pip wheel -v --no-deps -w dist ./fastops")


@case("cmake-cuda-compiler-not-found", "cudacxx-absent", r"Could not find compiler set in env")
def absent_cudacxx(box: Box) -> None:
    """CUDACXX names a toolkit that was removed."""
    _project(box)
    box.env["CUDACXX"] = "/usr/local/cuda-12.4/bin/nvcc"
    box.record(_CONFIGURE)


@case("cmake-cuda-root-not-found", "findcuda", r"Specify CUDA_TOOLKIT_ROOT_DIR")
def no_toolkit_root(box: Box) -> None:
    """The old FindCUDA module looks for a toolkit and there is none."""
    box.hide(str(TOOLKIT))
    text = """\
        cmake_minimum_required(VERSION 3.10)
        project(fastops LANGUAGES C CXX)
        find_package(Threads REQUIRED)
        find_package(OpenMP)
        find_package(CUDA 11.0 REQUIRED)
        cuda_add_library(fastops csrc/error_codes_0.cu)
        """
    box.write({"fastops/CMakeLists.txt": text, **kernels(_FEW)})
    box.record(_CONFIGURE)


@case(
    "cmake-cuda-root-not-found",
    "findcudatoolkit",
    r"Could not find nvcc executable in path|Could NOT find CUDAToolkit",
)
def no_toolkit_package(box: Box) -> None:
    """find_package(CUDAToolkit) is told a root that is not one."""
    box.hide(str(TOOLKIT))
    text = """\
        cmake_minimum_required(VERSION 3.18)
        project(fastops LANGUAGES C CXX)
        find_package(Threads REQUIRED)
        find_package(CUDAToolkit REQUIRED)
        add_library(fastops csrc/host.cpp)
        target_link_libraries(fastops CUDA::cudart)
        """
    box.write({"fastops/CMakeLists.txt": text, "fastops/csrc/host.cpp": "int main() {}\n"})
    box.record(f"{_CONFIGURE} -DCUDAToolkit_ROOT=/opt/cuda-12.6")


@case(
    "cmake-cuda-arch-undetected", "native", r"Failed to detect a default CUDA architecture|native"
)
def native_arch(box: Box) -> None:
    """The architecture `native` is asked for where no GPU is."""
    _project(box)
    box.record(f"{_CONFIGURE} -DCMAKE_CUDA_ARCHITECTURES=native && cmake --build fastops/build")


@case("cmake-cuda-arch-undetected", "empty", r"CMAKE_CUDA_ARCHITECTURES must be non-empty if set")
def empty_arch(box: Box) -> None:
    """A script passes on a variable that nobody has set."""
    box.add_python("3.12")
    _wheel_project(box, cmake="cmake<4")
    box.env["CMAKE_ARGS"] = "-DCMAKE_CUDA_ARCHITECTURES="
    box.record("pip install -v ./fastops")


@case("ninja-missing", "cmake", r"unable to find a build program corresponding to .Ninja")
def no_ninja(box: Box) -> None:
    """The Ninja generator is asked for where there is no ninja."""
    box.hide_file("/usr/bin/ninja")
    _project(box)
    box.record(f"{_CONFIGURE} -G Ninja -DCMAKE_CUDA_ARCHITECTURES=90")


@case("stale-ninja-path", "build-env-gone", r"^ *'/tmp/pip-build-env.*/ninja' '--version'")
def stale_ninja(box: Box) -> None:
    """A build folder is kept from pip's isolated build, whose ninja is gone."""
    box.add_python("3.12", "cmake")
    _project(box)
    env = "/tmp/pip-build-env-x2v9k1ab/overlay"
    box.prepare(
        f"python -m venv {env} && {env}/bin/pip install -q ninja && PATH={env}/bin:$PATH "
        f"{_CONFIGURE} -G Ninja -DCMAKE_CUDA_ARCHITECTURES=90"
    )
    box.record(f"set -x; {_CONFIGURE}; cmake --build fastops/build --verbose")


@case("submodule-missing", "cmake", r"does not contain a CMakeLists\.txt file")
def no_submodule(box: Box) -> None:
    """A clone without --recursive: third_party/cutlass is an empty folder."""
    extra = "add_subdirectory(third_party/cutlass)"
    _project(box, extra=extra)
    (box.home / "fastops/third_party/cutlass").mkdir(parents=True)
    box.record(f"{_CONFIGURE} -DCMAKE_CUDA_ARCHITECTURES=90")


@case("missing-cudnn-headers", "cmake", r"Could NOT find CUDNN")
def no_cudnn(box: Box) -> None:
    """A project's own FindCUDNN finds neither header nor library."""
    module = """\
        find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDNN_PATH)
        find_library(CUDNN_LIBRARY cudnn HINTS ENV CUDNN_PATH PATH_SUFFIXES lib lib64)
        include(FindPackageHandleStandardArgs)
        find_package_handle_standard_args(
          CUDNN REQUIRED_VARS CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
        """
    box.write({"fastops/cmake/FindCUDNN.cmake": module})
    own = "list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_SOURCE_DIR}/cmake)\n"
    _project(box, extra=own + "find_package(CUDAToolkit REQUIRED)\nfind_package(CUDNN REQUIRED)")
    box.record(f"{_CONFIGURE} -DCMAKE_CUDA_ARCHITECTURES=90")


@case("host-compiler-too-old", "cmake-dialect", r"requires the language dialect .CXX26")
def unknown_dialect(box: Box) -> None:
    """A project asks for C++26 of a GCC that has no such language level."""
    _project(box)
    box.write({"fastops/csrc/host.cpp": "int host() { return 26; }\n"})
    lists = box.home / "fastops/CMakeLists.txt"
    lists.write_text(lists.read_text() + _HOST)
    box.record(f"{_CONFIGURE} -DCMAKE_CUDA_ARCHITECTURES=90")


@case("nvcc-older-than-package-minimum", "cmake", r"needs CUDA 13\.2 or newer")
def nvcc_below_minimum(box: Box) -> None:
    """The package's own gate refuses the toolkit found."""
    extra = """\
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.2)
  message(FATAL_ERROR "fastops needs CUDA 13.2 or newer, found ${CMAKE_CUDA_COMPILER_VERSION}")
endif()"""
    _project(box, extra=extra)
    box.record(f"{_CONFIGURE} -DCMAKE_CUDA_ARCHITECTURES=90")


@case("network-download-failed", "fetchcontent", r"Could not resolve host")
def no_fetchcontent(box: Box) -> None:
    """FetchContent clones CUTLASS on a machine without network."""
    extra = """\
include(FetchContent)
FetchContent_Declare(cutlass
  GIT_REPOSITORY https://github.com/NVIDIA/cutlass.git GIT_TAG v3.9.2)
FetchContent_MakeAvailable(cutlass)"""
    _project(box, extra=extra)
    box.record(f"{_CONFIGURE} -DCMAKE_CUDA_ARCHITECTURES=90")
