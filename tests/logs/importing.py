"""Failures when a package that was built is imported or run on a machine without GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.logs.cases import case
from tests.logs.parts import TOOLKIT, MissingPartError
from tests.logs.projects import MODULE, modules

if TYPE_CHECKING:
    from tests.logs.box import Box

_SO = "fastops/fastops/_C.cpython-311-x86_64-linux-gnu.so"
_INCLUDE = "-I/opt/python3.11/include/python3.11"

# A script like those that users start: some noise, then the import.
_TRAIN = """\
import logging, sys, warnings
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("train")
log.info("arguments: %s", {"lr": 3e-4, "fail_on_error": False, "device": "cuda"})
warnings.warn("errors='coerce' is deprecated and will be removed", DeprecationWarning)
log.warning("could not find a checkpoint, starting from scratch")
log.error("metrics server not reachable; going on without it")
from fastops import functional_api
"""
_API = """\
from fastops import errors, ops
from fastops import _C
"""


def _package(box: Box, code: str, link: str) -> None:
    """A package with a module that is already built, as from a wheel."""
    box.add_python("3.11")
    box.write(modules() | {"fastops/fastops/functional_api.py": _API, "train.py": _TRAIN})
    box.write({"module.c": MODULE + code})
    box.prepare(f"gcc -shared -fPIC {_INCLUDE} module.c -o {_SO} {link}")
    box.env["PYTHONPATH"] = "/home/builder/fastops"


def _stub(box: Box, soname: str, code: str, *, versions: str = "") -> str:
    """A library to link with that is not there at run time; answers linker options for it."""
    box.write({"stub/stub.c": code, "stub/versions": versions})
    script = "-Wl,--version-script=stub/versions" if versions else ""
    name = f"stub/lib{soname.replace('.', '_')}.so"
    box.prepare(f"gcc -shared -fPIC -nostdlib -Wl,-soname,{soname} {script} -o {name} stub/stub.c")
    return f"-Wl,--no-as-needed /home/builder/{name}"


def _import_without(box: Box, soname: str, symbol: str) -> None:
    """Import a module that needs a library which is not installed here."""
    link = _stub(box, soname, f"int {symbol}(void) {{ return 0; }}\n")
    call = f"extern int {symbol}(void); int fastops_use(void) {{ return {symbol}(); }}\n"
    _package(box, call, link)
    box.record("python train.py")


@case("libcudart-not-found", "import", r"ImportError: libcudart\.so\.12: cannot open shared")
def no_cudart(box: Box) -> None:
    """A module built for CUDA 12 on a machine with CUDA 13."""
    _import_without(box, "libcudart.so.12", "cudaMalloc")


@case("libcudnn-not-found", "import", r"ImportError: libcudnn\.so\.9: cannot open shared")
def no_cudnn(box: Box) -> None:
    """A module that needs cuDNN 9, which is not installed."""
    _import_without(box, "libcudnn.so.9", "cudnnCreate")


@case("libnvrtc-missing", "import", r"libnvrtc\.so\.13: cannot open shared object file")
def no_nvrtc(box: Box) -> None:
    """A module that compiles at run time, without NVRTC."""
    _import_without(box, "libnvrtc.so.13", "nvrtcCreateProgram")


@case("libcuda-driver-missing", "import", r"ImportError: libcuda\.so\.1: cannot open shared")
def no_driver(box: Box) -> None:
    """A module that is linked to the driver, on a machine without one."""
    _import_without(box, "libcuda.so.1", "cuInit")


@case("cuda-math-lib-not-found", "import", r"ImportError: libcublasLt\.so\.13: cannot open shared")
def no_cublas(box: Box) -> None:
    """A module that needs cuBLAS, of which no wheel is installed."""
    _import_without(box, "libcublasLt.so.13", "cublasLtCreate")


@case("cuda-math-lib-not-found", "dlopen", r"libcutensor\.so\.2: cannot open shared object file")
def no_cutensor(box: Box) -> None:
    """A package opens cuTENSOR by name when it is used."""
    _package(box, "", "")
    text = """\
        import ctypes
        try:
            ctypes.CDLL("libcutensor.so.1")
        except OSError as error:
            print("warning: cuTENSOR 1 is not there, trying 2")
        handle = ctypes.CDLL("libcutensor.so.2")
        """
    box.write({"fastops/fastops/functional_api.py": text})
    box.record("python train.py")


@case("glibc-too-old", "import", r"version `GLIBC_2\.38' not found")
def glibc(box: Box) -> None:
    """A module built on a system with a newer glibc (`strtol` of C23 came with 2.38)."""
    symbol = "__isoc23_strtol"
    link = _stub(
        box,
        "libc.so.6",
        f"long {symbol}(const char *t, char **e, int b) {{ return 0; }}\n",
        versions=f"GLIBC_2.38 {{ global: {symbol}; }};\n",
    )
    call = f"extern long {symbol}(const char *, char **, int);\n"
    call += f'long fastops_use(void) {{ return {symbol}("1", 0, 10); }}\n'
    _package(box, call, link)
    box.record("python train.py")


@case("glibcxx-too-old", "import", r"version `GLIBCXX_3\.4\.32' not found")
def glibcxx(box: Box) -> None:
    """A module built by GCC 13 meets the libstdc++ of GCC 12."""
    symbol = "_ZSt21ios_base_library_initv"
    link = _stub(
        box,
        "libstdc++.so.6",
        f"void {symbol}(void) {{}}\n",
        versions=f"GLIBCXX_3.4.32 {{ global: {symbol}; }};\n",
    )
    call = f"extern void {symbol}(void); void fastops_use(void) {{ {symbol}(); }}\n"
    _package(box, call, link)
    box.record("set -x; python -c 'import fastops'; python -X importtime train.py")


_NUMPY = """
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__C(void) { import_array(); return PyModule_Create(&module); }
"""


@case("numpy-abi-mismatch", "import", r"compiled using NumPy 1\.x cannot be run in")
def numpy_abi(box: Box) -> None:
    """A module built with NumPy 1.26 is imported with NumPy 2.2."""
    _package(box, "", "")
    box.write({"module.c": _NUMPY})
    box.prepare("pip install -q numpy==1.26.4")
    include = "-I$(python -c 'import numpy; print(numpy.get_include())')"
    box.prepare(f"gcc -shared -fPIC {_INCLUDE} {include} module.c -o {_SO}")
    box.prepare("pip install -q numpy==2.2.6")
    box.record("python train.py")


_DRIVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
int cuInit(unsigned flags) {{ return {status}; }}
int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long flags, int *s) {{
    *found = dlsym(RTLD_DEFAULT, name);
    if (s) *s = *found ? 0 : 1;
    return *found ? 0 : 500;
}}
int cuGetProcAddress(const char *name, void **found, int version, unsigned long flags) {{
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}}
int cuGetExportTable(const void **table, const void *id) {{ *table = NULL; return 500; }}
"""
_DEVICES = """
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#define CHECK(call) do { cudaError_t error = (call); if (error != cudaSuccess) { \\
    std::fprintf(stderr, "CUDA error %d at %s:%d: %s\\n", error, __FILE__, __LINE__, \\
                 cudaGetErrorString(error)); std::exit(1); } } while (0)
int main() {
    std::printf("fastops benchmark, 12 shapes, error bound 1e-3\\n");
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    std::printf("%d devices\\n", count);
}
"""


def _run_with_driver(box: Box, version: int, status: int) -> None:
    """Run a real program of the CUDA runtime on a driver library that answers so and nothing else.

    The runtime's own check is what fails; a machine with such a driver does the same.
    """
    if not TOOLKIT.is_dir():
        raise MissingPartError("there is no CUDA toolkit")
    box.write({"bench.cu": _DEVICES, "driver.c": _DRIVER.format(version=version, status=status)})
    driver = "gcc -shared -fPIC driver.c -o driver/libcuda.so.1 -ldl"
    box.prepare(f"mkdir driver && {driver} && nvcc -arch=sm_90 bench.cu -o bench")
    box.env["LD_LIBRARY_PATH"] = "/home/builder/driver"
    box.record("./bench; echo exit status $?")


@case("driver-too-old", "runtime", r"driver version is insufficient for CUDA runtime version")
def driver_old(box: Box) -> None:
    """The driver is of CUDA 12.2's time, the runtime of 13.0."""
    _run_with_driver(box, 12020, 0)


@case("no-cuda-device", "runtime", r"no CUDA-capable device is detected")
def no_device(box: Box) -> None:
    """A driver is there and sees no device."""
    _run_with_driver(box, 13000, 100)


@case("driver-library-mismatch", "runtime", r"(?i)driver.*(mismatch|combination)")
def driver_mismatch(box: Box) -> None:
    """The kernel module is of another driver version than the library."""
    _run_with_driver(box, 13000, 803)


_NVRTC = """\
import ctypes, sys
from pathlib import Path
import nvidia
root = Path(list(nvidia.__path__)[0], "cu13", "lib")
nvrtc = ctypes.CDLL(str(root / "libnvrtc.so.13"))
source = b'extern "C" __global__ void scale(float *x) { int unused; *x *= 2; }'
program = ctypes.c_void_p()
nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"error_scale.cu", 0, None, None)
options = (ctypes.c_char_p * 2)(b"--gpu-architecture=compute_" + sys.argv[1].encode(), b"-w")
status = nvrtc.nvrtcCompileProgram(program, 2, options)
size = ctypes.c_size_t()
nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
log = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetProgramLog(program, log)
if status:
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    raise RuntimeError(f"{nvrtc.nvrtcGetErrorString(status).decode()}: {log.value.decode()}")
"""


@case("nvrtc-arch-unsupported", "runtime", r"invalid value for --gpu-architecture")
def nvrtc_arch(box: Box) -> None:
    """NVRTC 13.0 is asked to compile for a GPU of the Maxwell generation."""
    box.add_python("3.11")
    box.add_packages("nvidia_cuda_nvrtc-13*")
    box.write({"jit.py": _NVRTC})
    box.record("python jit.py 52")


@case("distutils-removed", "runtime", r"No module named 'distutils'")
def no_distutils(box: Box) -> None:
    """A package that loads its compiler by distutils, on Python 3.12."""
    box.add_python("3.12")
    box.write(modules())
    text = "from distutils.version import LooseVersion\nfrom distutils import ccompiler\n"
    box.write({"fastops/fastops/functional_api.py": text, "train.py": _TRAIN})
    box.env["PYTHONPATH"] = "/home/builder/fastops"
    box.record("python train.py")


@case("python-dep-incompatible", "runtime", r"cannot import name 'LegacyVersion' from 'packaging")
def packaging_changed(box: Box) -> None:
    """A package needs a class that the dependency's newer release took away."""
    box.add_python("3.11", "packaging==25.0")
    box.write(modules())
    text = "from packaging.version import LegacyVersion, Version\n"
    box.write({"fastops/fastops/functional_api.py": text, "train.py": _TRAIN})
    box.env["PYTHONPATH"] = "/home/builder/fastops"
    box.record("python train.py")
