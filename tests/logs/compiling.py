"""Failures of nvcc and the host compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.logs.box import HOME
from tests.logs.cases import case
from tests.logs.parts import TOOLKIT, MissingPartError
from tests.logs.projects import (
    MODULE,
    cmake_lists,
    kernel_names,
    kernels,
    modules,
    nvcc_setup,
    pyproject,
)

if TYPE_CHECKING:
    from tests.logs.box import Box

_FEW = kernel_names(4)
_NVCC = f"{TOOLKIT}/bin/nvcc -O2 -Xcompiler -fPIC,-Wall"


def _make(box: Box, names: list[str], flags: str, *, targets: str = "") -> None:
    """A project with a plain Makefile."""
    text = f"""\
NVCC ?= nvcc
FLAGS = -O2 --std=c++17 -Xcompiler -fPIC,-Wall,-Werror=return-type {flags}
OBJECTS = {" ".join(f"build/{name}.o" for name in names)}

all: build/libfastops.so

build/%.o: csrc/%.cu
\t@mkdir -p build
\t$(NVCC) $(FLAGS) -c $< -o $@
{targets}
build/libfastops.so: $(OBJECTS)
\t$(NVCC) -shared -o $@ $(OBJECTS)
"""
    box.write(kernels(names))
    box.write({"fastops/Makefile": text})


def _setup(box: Box, command: str, *, python: str = "3.11") -> None:
    """A package whose setup.py calls nvcc."""
    box.add_python(python, "setuptools==80.9.0", "wheel")
    box.write({"fastops/setup.py": nvcc_setup(command), "fastops/csrc/module.c": MODULE})
    box.write(kernels(_FEW, "fastops/csrc") | modules())


def _source(box: Box, name: str, text: str) -> None:
    box.write({f"fastops/csrc/{name}.cu": text})


@case("arch-newer-than-nvcc", "make", r"nvcc fatal.*Unsupported gpu architecture 'compute_107'")
def arch_too_new_make(box: Box) -> None:
    """make -j with an architecture that CUDA 13.0 does not know yet."""
    _make(box, _FEW, "-gencode=arch=compute_107,code=sm_107")
    box.record("make -C fastops -j2")


@case("arch-newer-than-nvcc", "cmake-ninja", r"Unsupported gpu architecture 'compute_10[67]'")
def arch_too_new_ninja(box: Box) -> None:
    """The same through CMake and ninja, where the compiler's own test passes."""
    text = cmake_lists([f"csrc/{name}.cu" for name in kernel_names(12)])
    text += "set_source_files_properties(csrc/softmax_0.cu PROPERTIES COMPILE_OPTIONS\n"
    text += '  "-gencode=arch=compute_107,code=sm_107")\n'
    box.write({"fastops/CMakeLists.txt": text, **kernels(kernel_names(12))})
    box.record(
        "cmake -S fastops -B build -G Ninja -DCMAKE_CUDA_ARCHITECTURES=90 && ninja -C build -v -k 0"
    )


@case("arch-dropped-by-nvcc", "pip-setup-py", r"Unsupported gpu architecture 'compute_60'")
def arch_dropped(box: Box) -> None:
    """A setup.py still asks for Pascal, which CUDA 13 dropped."""
    _setup(box, f"{_NVCC} -gencode=arch=compute_60,code=sm_60 -gencode=arch=compute_90,code=sm_90")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("arch-dropped-by-nvcc", "cmake-make", r"Unsupported gpu architecture 'compute_70'")
def arch_dropped_cmake(box: Box) -> None:
    """One target of a larger CMake build asks for Volta."""
    names = kernel_names(16)
    text = cmake_lists([f"csrc/{name}.cu" for name in names[:14]])
    text += f"add_library(legacy STATIC csrc/{names[14]}.cu csrc/{names[15]}.cu)\n"
    text += 'set_target_properties(legacy PROPERTIES CUDA_ARCHITECTURES "70;90")\n'
    box.write({"fastops/CMakeLists.txt": text, **kernels(names)})
    box.record(
        "cmake -S fastops -B build -DCMAKE_CUDA_ARCHITECTURES=90 && make -C build -k -j2 VERBOSE=1"
    )


@case("nvcc-unknown-option", "make", r"nvcc fatal\s+: Unknown option '--split-compile-extend=4'")
def unknown_option(box: Box) -> None:
    """A misspelt option of a newer nvcc."""
    _make(box, _FEW, "--split-compile-extend=4")
    box.record("make -C fastops")


@case("host-flag-passed-to-nvcc", "pip-setup-py", r"nvcc fatal\s+: Unknown option '-fopenmp'")
def host_flag(box: Box) -> None:
    """CXXFLAGS reach nvcc without -Xcompiler."""
    _setup(box, f"{_NVCC} -arch=sm_90 -fopenmp -Wno-sign-compare")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("host-flag-passed-to-nvcc", "make", r"nvcc fatal\s+: Unknown option '-Wmissing-decl")
def host_flag_make(box: Box) -> None:
    """A Makefile hands the warning flags of the C++ files to nvcc too."""
    _make(box, kernel_names(12), "-arch=sm_90 $(if $(filter %softmax_0.cu,$<),$(CXXFLAGS))")
    box.env["CXXFLAGS"] = "-Wmissing-declarations -Wno-error"
    box.record("make -C fastops -j2 -k", stamped=True)


@case("nvcc-too-old-for-std", "make", r"Value 'c\+\+23' is not defined for option 'std'")
def std_unknown(box: Box) -> None:
    """nvcc 13.0 is asked for C++23."""
    _make(box, _FEW, "--std=c++23")
    box.record("sed -i s/--std=c++17// fastops/Makefile; make -C fastops -j2 -k")


@case("cxx-standard-too-low", "cccl", r"(?i)#\s*error.*(libcu\+\+|C\+\+17|CUB) requires")
def std_too_low(box: Box) -> None:
    """CUB of CUDA 13 is compiled as C++14."""
    _make(box, _FEW, "--std=c++14 -arch=sm_90 -Icsrc -diag-suppress 177")
    _source(box, "scatter_add_0", "#include <cub/cub.cuh>\nint scatter() { return 0; }\n")
    box.record(
        f"sed -i s/--std=c++17// fastops/Makefile; CPATH={TOOLKIT}/include/cccl make -C fastops -k"
    )


@case("cuda12-texture-ref-removed", "make", r"error: .*texture")
def texture_reference(box: Box) -> None:
    """Code of CUDA 11 with a texture reference."""
    _make(box, _FEW, "-arch=sm_90")
    text = """\
        #include <cuda_runtime.h>
        texture<float, cudaTextureType2D, cudaReadModeElementType> volume;
        __global__ void sample(float *out, float x, float y) { *out = tex2D(volume, x, y); }
        void bind(cudaArray_t array) { cudaBindTextureToArray(volume, array); }
        """
    _source(box, "gather_rows_0", text)
    box.record("make -C fastops -j2 -k")


@case("cuda13-cccl-api-removed", "make", r'error: namespace "cub.*" has no member "Max"|cub::Max')
def cub_max(box: Box) -> None:
    """cub::Max went away with CUDA 13."""
    _make(box, _FEW, "-arch=sm_90")
    text = """\
        #include <cub/block/block_reduce.cuh>
        __global__ void reduce(float *out, const float *in) {
            using Reduce = cub::BlockReduce<float, 128>;
            __shared__ typename Reduce::TempStorage storage;
            float top = Reduce(storage).Reduce(in[threadIdx.x], cub::Max());
            if (threadIdx.x == 0) *out = top;
        }
        """
    _source(box, "layer_norm_fwd_0", text)
    box.record("make -C fastops -j2 -k")


@case("missing-cuda-headers", "gxx", r"fatal error: cuda_runtime_api\.h: No such file")
def no_runtime_header(box: Box) -> None:
    """The host part is compiled by g++ without the toolkit's include folder."""
    targets = "build/host.o: csrc/host.cpp\n\tg++ -O2 -Wall -fPIC -c $< -o $@\n"
    _make(box, _FEW, "-arch=sm_90", targets=targets)
    text = (
        "#include <cuda_runtime_api.h>\nint devices() { int n; return cudaGetDeviceCount(&n); }\n"
    )
    box.write({"fastops/csrc/host.cpp": text})
    box.record("make -C fastops -j2 build/host.o all")


@case("missing-cuda-headers", "cusparse", r"fatal error: cusparse\.h: No such file")
def no_cusparse_header(box: Box) -> None:
    """A toolkit that was installed in part lacks cuSPARSE's development package."""
    _setup(box, f"{_NVCC} -arch=sm_90")
    _source(box, "scatter_add_0", "#include <cusparse.h>\nvoid *handle;\n")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("missing-cudnn-headers", "make-colours", r"fatal error: .*cudnn\.h: No such file")
def no_cudnn_header(box: Box) -> None:
    """cuDNN is not installed."""
    _make(box, _FEW, "-arch=sm_90")
    _source(box, "gather_rows_0", "#include <cudnn.h>\n")
    flags = "-arch=sm_90 -Xcompiler -fdiagnostics-color=always"
    box.record(f"make -C fastops -k -j2 FLAGS='{flags}'")


@case("dependency-header-missing", "pybind11", r"fatal error: pybind11/pybind11\.h")
def no_pybind11(box: Box) -> None:
    """pybind11 is no build requirement and not installed."""
    _setup(box, f"{_NVCC} -arch=sm_90", python="3.12")
    text = '#include <pybind11/pybind11.h>\nPYBIND11_MODULE(_C, m) { m.doc() = "fastops"; }\n'
    box.write({"fastops/csrc/module.cpp": text})
    box.prepare("sed -i s/module.c/module.cpp/ fastops/setup.py")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("dependency-header-missing", "glm-make", r"fatal error: glm/glm\.hpp")
def no_glm(box: Box) -> None:
    """A header-only library is expected in the system."""
    names = kernel_names(10)
    _make(box, names, "-arch=sm_90 -Ithird_party")
    _source(box, "rotary_embed_0", "#include <glm/glm.hpp>\n#include <cuda_runtime.h>\n")
    box.record("make -C fastops -j2 -k", stamped=True)


@case("submodule-missing", "cutlass-header", r"fatal error: cutlass/cutlass\.h")
def no_cutlass(box: Box) -> None:
    """A git clone without its submodules is built with pip."""
    _setup(box, f"{_NVCC} -arch=sm_90 -Ithird_party/cutlass/include")
    text = '[submodule "third_party/cutlass"]\n\tpath = third_party/cutlass\n'
    text += "\turl = https://github.com/NVIDIA/cutlass.git\n"
    box.write({"fastops/.gitmodules": text})
    (box.home / "fastops/third_party/cutlass").mkdir(parents=True)
    _source(box, "layer_norm_fwd_0", "#include <cutlass/cutlass.h>\n")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("python-dev-headers-missing", "pip", r"fatal error: Python\.h: No such file")
def no_python_header(box: Box) -> None:
    """Python's development package is not installed."""
    _setup(box, f"{_NVCC} -arch=sm_90")
    box.hide("/opt/python3.11/include")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("nvcc-not-found", "make", r"nvcc: (command )?not found|nvcc: No such file")
def no_nvcc_make(box: Box) -> None:
    """There is no toolkit, and make calls nvcc by its name."""
    _make(box, _FEW, "-arch=sm_90")
    box.hide(str(TOOLKIT))
    box.record("make -C fastops -j2 -k")


@case("nvcc-not-found", "pip", r"error: command '.*nvcc' failed: No such file")
def no_nvcc_pip(box: Box) -> None:
    """setup.py calls the nvcc of a toolkit that is not there."""
    _setup(box, "/usr/local/cuda-12.8/bin/nvcc -arch=sm_90", python="3.12")
    box.record("pip wheel -v --no-build-isolation --no-deps ./fastops")


@case("host-compiler-too-old", "format-header", r"fatal error: format: No such file")
def no_format_header(box: Box) -> None:
    """std::format needs GCC 13's library."""
    targets = "build/log.o: csrc/log.cpp\n\tg++ -std=c++20 -O2 -Wall -c $< -o $@\n"
    _make(box, _FEW, "-arch=sm_90", targets=targets)
    text = (
        '#include <format>\n#include <string>\nstd::string f() { return std::format("{}", 1); }\n'
    )
    box.write({"fastops/csrc/log.cpp": text})
    box.record("make -C fastops -j2 build/log.o all")


@case("arch-list-mismatch", "static-assert", r"static assertion failed with \"MIN_GPU_ARCH")
def arch_lists_differ(box: Box) -> None:
    """The project computes its own minimum; CMake compiles for another architecture."""
    text = cmake_lists(
        [f"csrc/{name}.cu" for name in _FEW], extra="add_definitions(-DMIN_GPU_ARCH=900)"
    )
    box.write({"fastops/CMakeLists.txt": text, **kernels(_FEW)})
    source = """\
        #ifdef __CUDA_ARCH__
        static_assert(MIN_GPU_ARCH <= __CUDA_ARCH__,
                      "MIN_GPU_ARCH must bound __CUDA_ARCH__ from below, but doesn't.");
        #endif
        __global__ void half_mlp(float *x) { x[0] = 1.0f; }
        """
    _source(box, "scatter_add_0", source)
    box.record(
        "cmake -S fastops -B build -DCMAKE_CUDA_ARCHITECTURES=75 && cmake --build build -- -k -j2"
    )


def _nested(depth: int) -> str:
    """An expression so deep that a compiler's own recursion ends its stack."""
    return "(" * depth + "x" + "+1)" * depth


@case("compiler-crash", "cudafe", r"^Segmentation fault|died due to signal 11")
def front_end_crash(box: Box) -> None:
    """A generated kernel with an expression too deep for the stack that a batch system allows."""
    _make(box, _FEW, "-arch=sm_90")
    text = f"__global__ void deep(int *out, int x) {{ *out = {_nested(60000)}; }}\n"
    _source(box, "scatter_add_0", text)
    box.record("ulimit -s 1024; make -C fastops -k -j2")


@case("compiler-crash", "gcc", r"internal compiler error: Segmentation fault")
def host_crash(box: Box) -> None:
    """The host compiler crashes on a generated file, in a pip build."""
    _setup(box, f"{_NVCC} -arch=sm_90", python="3.12")
    text = f"#include <Python.h>\nint deep(int x) {{ return {_nested(200000)}; }}\n"
    box.write({"fastops/csrc/module.c": text})
    box.record("pip install -v --no-build-isolation ./fastops")


@case("disk-full", "nvcc-tmp", r"No space left on device")
def disk_full(box: Box) -> None:
    """nvcc's temporary files fill a small /tmp."""
    _make(box, _FEW, "-arch=sm_90")
    box.mounts += ["--size", "1500000", "--tmpfs", "/tmp"]
    box.record("make -C fastops -k -j2")


@case("permission-denied", "make", r"Permission denied")
def object_not_writable(box: Box) -> None:
    """The build folder was made by root."""
    _make(box, _FEW, "-arch=sm_90")
    (box.home / "fastops/build").mkdir(mode=0o555)
    box.record("make -C fastops -k -j2")


@case("thrust-cub-version-conflict", "bundled-thrust", r"#error The version of CUB in your include")
def bundled_thrust(box: Box) -> None:
    """A bundled Thrust of CUDA 12.4 is found before the toolkit's CUB."""
    _make(box, _FEW, f"-arch=sm_90 -Ithird_party -I{TOOLKIT}/include/cccl")
    old = box.parts.unpacked("nvidia_cuda_cccl_cu12-*") / "nvidia/cuda_cccl/include/thrust"
    box.mounts += ["--ro-bind", str(old), f"{HOME}/fastops/third_party/thrust"]
    text = "#include <thrust/device_vector.h>\n#include <thrust/sort.h>\nvoid f();\n"
    _source(box, "scatter_add_0", text)
    box.record("make -C fastops -k -j2")


@case(
    "nvcc-headers-version-mix", "cccl", r"CUDA compiler and CUDA toolkit headers are incompatible"
)
def headers_of_another(box: Box) -> None:
    """The runtime headers of CUDA 13.1 are found before those of nvcc 13.0."""
    _make(box, _FEW, "-arch=sm_90 -Xcompiler -Wno-unused -I/opt/cuda-13.1/include")
    newer = box.parts.unpacked("nvidia_cuda_runtime-13*") / "nvidia/cu13"
    box.mounts += ["--ro-bind", str(newer), "/opt/cuda-13.1"]
    _source(box, "scatter_add_0", "#include <cub/cub.cuh>\n")
    box.record("make -C fastops -k -j2")


@case("nvcc-headers-version-mix", "ptxas", r"ptxas.*Unsupported \.version")
def newer_cicc(box: Box) -> None:
    """Components of two CUDA releases were installed together: cicc writes newer PTX than ptxas."""
    newer = box.parts.unpacked("nvidia_nvvm-13*") / "nvidia/cu13/nvvm"
    if not newer.is_dir():
        raise MissingPartError("no nvvm of a newer CUDA")
    _make(box, _FEW, "-arch=sm_90")
    box.mounts += ["--ro-bind", str(newer), f"{TOOLKIT}/nvvm"]
    box.record("make -C fastops -k -j2")


@case("disk-full", "pip-build", r"No space left on device")
def disk_full_pip(box: Box) -> None:
    """pip unpacks the build requirements into a /tmp that is too small."""
    box.add_python("3.12")
    box.write({"fastops/pyproject.toml": pyproject("setuptools", "cmake", "ninja"), **modules()})
    box.mounts += ["--size", "30000000", "--tmpfs", "/tmp"]
    box.record("pip install -v ./fastops")
