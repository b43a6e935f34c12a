"""Failures of the linkers: nvlink, ld and the loader's view of symbols at link time."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.logs.cases import case
from tests.logs.parts import TOOLKIT, MissingPartError
from tests.logs.projects import MODULE, kernel_names, kernels, modules, nvcc_setup

if TYPE_CHECKING:
    from tests.logs.box import Box

_FEW = kernel_names(4)
_FLAGS = "-O2 -arch=sm_90 -Xcompiler -fPIC,-Wall"
_TWO_KERNELS = """
#include <cuda_runtime.h>
template <int N> __global__ void scale(float *x) { *x *= N; }
void twice(float *x) { scale<2><<<1, 32>>>(x); }
void thrice(float *x) { scale<3><<<1, 32>>>(x); }
"""


def _setup(box: Box, *, link: str = "", libraries: str = "", flags: str = "") -> None:
    box.add_python("3.11", "setuptools==80.9.0", "wheel")
    command = f"{TOOLKIT}/bin/nvcc {_FLAGS} {flags}"
    link = f"-L{TOOLKIT}/lib64 {link}"
    text = nvcc_setup(command, link=link, libraries=libraries)
    box.write({"fastops/setup.py": text, "fastops/csrc/module.c": MODULE})
    box.write(kernels(_FEW, "fastops/csrc") | modules())


def _make(box: Box, link: str, *, flags: str = _FLAGS) -> None:
    text = f"""\
OBJECTS = {" ".join(f"build/{name}.o" for name in _FEW)} build/main.o

build/bench: $(OBJECTS)
\t{link}
build/%.o: csrc/%.cu
\t@mkdir -p build
\tnvcc {flags} -c $< -o $@
"""
    box.write(kernels(_FEW) | {"fastops/Makefile": text})
    box.write({"fastops/csrc/main.cu": "int main() { return 0; }\n"})


@case("missing-cuda-libs-link", "pip-cublas", r"cannot find -lcublas")
def no_cublas(box: Box) -> None:
    """The toolkit is installed without cuBLAS."""
    _setup(box, libraries="cudart cublas cublasLt")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("missing-cuda-libs-link", "make-cudart", r"cannot find -lcudart")
def no_cudart(box: Box) -> None:
    """g++ links and gets no -L of the toolkit."""
    _make(box, "g++ -o $@ $(OBJECTS) -lcudart -lpthread -ldl")
    box.record("make -C fastops -j2")


@case("missing-libcuda-link", "pip", r"cannot find -lcuda: No such file")
def no_libcuda(box: Box) -> None:
    """There is no driver and no folder of stubs where the build runs."""
    _setup(box, libraries="cudart cuda")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("missing-libcuda-link", "make", r"cannot find -lcuda: No such file")
def no_libcuda_make(box: Box) -> None:
    """The same in a Makefile, linked by nvcc."""
    _make(box, f"nvcc -arch=sm_90 -o $@ $(OBJECTS) -L{TOOLKIT}/lib64/stubs -lcuda")
    box.record("make -C fastops -j2", stamped=True)


@case("rdc-device-link-missing", "gxx", r"undefined reference to `__cudaRegisterLinkedBinary")
def no_device_link(box: Box) -> None:
    """Relocatable device code is linked by g++ alone."""
    link = f"g++ -o $@ $(OBJECTS) -L{TOOLKIT}/lib64 -lcudart_static -lpthread -ldl -lrt"
    _make(box, link, flags=f"{_FLAGS} -rdc=true")
    box.record("make -C fastops -j2")


@case("rdc-device-link-missing", "import", r"undefined symbol: __cudaRegisterLinkedBinary")
def no_device_link_import(box: Box) -> None:
    """The same in an extension module: it builds, and the import fails."""
    _setup(box, libraries="cudart_static stdc++", flags="-rdc=true")
    box.record(
        "pip install -v --no-build-isolation ./fastops; python -c 'import fastops._C'",
    )


@case("rdc-device-link-missing", "nvlink-undefined", r"nvlink error\s+: Undefined reference to")
def device_symbol_missing(box: Box) -> None:
    """A device function of another file is not among the objects linked."""
    _make(box, "nvcc -arch=sm_90 -o $@ $(OBJECTS)", flags=f"{_FLAGS} -rdc=true")
    text = """\
        extern __device__ float device_scale(float);
        __global__ void scale(float *x) { *x = device_scale(*x); }
        int main() { scale<<<1, 1>>>(nullptr); return 0; }
        """
    box.write({"fastops/csrc/main.cu": text})
    box.record("make -C fastops -j2")


@case("nvlink-toolkit-mismatch", "make", r"nvlink fatal.*newer than toolkit")
def newer_objects(box: Box) -> None:
    """A static library made by CUDA 13.1 is linked by the nvlink of 13.0."""
    newer = box.parts.unpacked(
        "nvidia_cuda_nvcc-13*", "nvidia_nvvm-13*", "nvidia_cuda_crt-13*", "nvidia_cuda_runtime-13*"
    )
    box.mounts += ["--ro-bind", str(newer / "nvidia/cu13"), "/opt/cuda-13.1"]
    text = "__device__ float device_scale(float x) { return 2 * x; }\n"
    main = """\
        extern __device__ float device_scale(float);
        __global__ void scale(float *x) { *x = device_scale(*x); }
        int main() { scale<<<1, 1>>>(nullptr); return 0; }
        """
    link = "nvcc -arch=sm_90 -o $@ $(OBJECTS) vendor/libscale.a"
    _make(box, link, flags=f"{_FLAGS} -rdc=true")
    box.write({"fastops/vendor/scale.cu": text, "fastops/csrc/main.cu": main})
    nvcc = "/opt/cuda-13.1/bin/nvcc -arch=sm_90 -rdc=true -I/opt/cuda-13.1/include"
    box.prepare(f"cd fastops/vendor && {nvcc} -c scale.cu && ar rcs libscale.a scale.o")
    box.record("make -C fastops -j2")


@case("nvlink-missing-libnvvm", "make", r"nvlink fatal\s+: elfLink linker library load error")
def no_libnvvm(box: Box) -> None:
    """A re-packed toolkit lacks libnvvm where nvlink looks; device LTO needs it."""
    lto = "-gencode=arch=compute_90,code=lto_90"
    flags = f"-O2 -Xcompiler -fPIC,-Wall -rdc=true {lto}"
    _make(box, "nvcc -dlto -arch=sm_90 -o $@ $(OBJECTS)", flags=flags)
    for library in sorted(TOOLKIT.glob("**/libnvvm.so*")):
        box.hide_file(str(library.resolve()))
    box.record("make -C fastops -j2")


@case(
    "stale-device-objects", "make", r"nvlink (error|fatal|warning)|file not recognized|file format"
)
def stale_objects(box: Box) -> None:
    """A compile that was broken off left an empty object, newer than its source."""
    _make(box, "nvcc -arch=sm_90 -o $@ $(OBJECTS)", flags=f"{_FLAGS} -rdc=true")
    box.prepare("make -C fastops build/softmax_0.o build/scatter_add_0.o 2>&1 || true")
    box.prepare(
        "cd fastops && make build/scatter_add_0.o && truncate -s 1200 build/scatter_add_0.o"
    )
    box.record("make -C fastops -j2")


@case("lto-drops-fatbin", "pip", r"symbol .fatbinData' is already defined")
def host_lto(box: Box) -> None:
    """CFLAGS turn on GCC's link-time optimisation for nvcc's host code: fatbins come together."""
    _setup(box, libraries="cudart", flags="-Xcompiler -flto", link="-flto")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("lto-drops-fatbin", "import", r"undefined symbol: fatbinData")
def host_lto_import(box: Box) -> None:
    """The link-time optimiser takes a fatbin and its user apart; the import tells of it."""
    _setup(
        box,
        libraries="cudart stdc++",
        flags="-Xcompiler -flto",
        link="-flto -flto-partition=max",
    )
    for name in _FEW:
        (box.home / f"fastops/csrc/{name}.cu").unlink()
    box.write({"fastops/csrc/scale.cu": _TWO_KERNELS})
    box.prepare("sed -i \"s/'-O2', //\" fastops/setup.py")
    box.record("pip install -v --no-build-isolation ./fastops; python -c 'import fastops._C'")


@case(
    "relocation-overflow",
    "make",
    r"failed to convert GOTPCREL relocation|relocation truncated to fit",
)
def overflow(box: Box) -> None:
    """Tables beyond 2 GB push the runtime's own data out of reach."""
    text = """\
        #include <cuda_runtime.h>
        char table[2000000000];
        char other[2000000000];
        int after;
        int main(int n, char **) { table[n] = other[n + 1]; return after + table[5] + other[6]; }
        """
    _make(box, "nvcc -arch=sm_90 -o $@ $(OBJECTS)", flags="-O2 -arch=sm_90 -Xcompiler -Wall")
    box.write({"fastops/csrc/main.cu": text})
    box.record("make -C fastops -j2")


@case("missing-cuda-libs-link", "ninja", r"cannot find -lcusolver")
def no_cusolver(box: Box) -> None:
    """The last of many steps of a ninja build links a library that is not installed."""
    names = kernel_names(24)
    lists = ["cmake_minimum_required(VERSION 3.20)", "project(fastops CXX CUDA)"]
    lists += ["add_library(fastops SHARED", *(f"  csrc/{name}.cu" for name in names), ")"]
    lists += ["target_link_libraries(fastops cusolver cusparse)"]
    box.write(kernels(names) | {"fastops/CMakeLists.txt": "\n".join(lists) + "\n"})
    box.record(
        "cmake -S fastops -B build -G Ninja -DCMAKE_CUDA_ARCHITECTURES=90 && ninja -v -C build"
    )


@case("oom-killed-compile", "cgroup", r"died due to signal 9|Killed|Cannot allocate memory")
def out_of_memory(box: Box) -> None:
    """A container with little memory: the kernel kills one of the compilers."""
    group = _memory_group()
    _make(box, "nvcc -arch=sm_90 -o $@ $(OBJECTS)")
    box.write({"fastops/csrc/scatter_add_0.cu": _large()})
    enter = Path(__file__).with_name("enter_cgroup.sh")
    box.record("make -C fastops -k -j2", gate=f"{enter} {group}")
    _remove(group)


@case("oom-killed-compile", "address-space", r"out of memory|bad_alloc|Cannot allocate memory")
def no_address_space(box: Box) -> None:
    """A batch system limits the address space; an allocation fails instead of a kill."""
    _make(box, "nvcc -arch=sm_90 -o $@ $(OBJECTS)")
    box.write({"fastops/csrc/scatter_add_0.cu": _large()})
    box.record("ulimit -v 420000; make -C fastops -k -j2")


def _large() -> str:
    """A file that takes some hundred megabytes to compile."""
    return "".join(
        f"template <int N> __device__ int f{i}(int x) {{ return N ? f{i}<N ? N - 1 : 0>(x * {i}"
        f" + N) : x; }}\n__global__ void k{i}(int *x) {{ *x = f{i}<180>(*x); }}\n"
        for i in range(300)
    )


_LIMIT = 250_000_000  # bytes: enough for all files but the large one


def _memory_group() -> Path:
    """A small cgroup, of version 1 or 2."""
    root = Path("/sys/fs/cgroup")
    old = (root / "memory").is_dir()
    group = (root / "memory" if old else root) / "cuwheel-logs"
    limit = group / ("memory.limit_in_bytes" if old else "memory.max")
    try:
        group.mkdir(exist_ok=True)
        limit.write_text(str(_LIMIT))
    except OSError as error:
        raise MissingPartError(f"no memory cgroup can be made: {error}") from error
    return group


def _remove(group: Path) -> None:
    """What the sandbox left needs a moment to end."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
