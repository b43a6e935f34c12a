"""Failures of extensions that torch builds or that need torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.logs.cases import case
from tests.logs.parts import TOOLKIT
from tests.logs.projects import kernel_names, kernels, modules, pyproject, torch_setup

if TYPE_CHECKING:
    from tests.logs.box import Box

_FEW = kernel_names(3)
_OPS = "#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"
_SOURCES = ["ops.cpp", *(f"{name}.cu" for name in _FEW)]


def _package(box: Box, *, torch: str = "cpu", ops: str = _OPS, **flags: list[str]) -> None:
    box.add_python("3.11", "setuptools==80.9.0", "wheel", "ninja")
    if torch == "cpu":
        box.add_torch()
    if torch == "cuda":
        box.add_cuda_torch()
    box.write({"fastops/setup.py": torch_setup(_SOURCES, **flags), "fastops/csrc/ops.cpp": ops})
    box.write(kernels(_FEW, "fastops/csrc") | modules())


@case("isolated-build-no-torch", "pip", r"ModuleNotFoundError: No module named 'torch'")
def isolated_pip(box: Box) -> None:
    """pip's isolated build of a package whose setup.py imports torch."""
    _package(box)
    box.record(
        "python -c 'import torch; print(torch.__version__)'; pip install -v --use-pep517 ./fastops"
    )


@case("isolated-build-no-torch", "build", r"ModuleNotFoundError: No module named 'torch'")
def isolated_build(box: Box) -> None:
    """The same through `python -m build`, with build requirements that leave torch out."""
    _package(box, torch="")
    box.prepare("pip install -q build")
    box.write({"fastops/pyproject.toml": pyproject("setuptools==80.9.0", "wheel", "ninja")})
    box.record("python -m build --wheel fastops", stamped=True)


@case("isolated-build-no-torch", "uv", r"ModuleNotFoundError: No module named 'torch'")
def isolated_uv(box: Box) -> None:
    """The same through uv."""
    _package(box, torch="")
    box.prepare("pip install -q uv")
    box.record("uv pip install ninja; uv pip install --color always ./fastops")


@case("cuda-home-not-set", "pip", r"OSError: CUDA_HOME environment variable is not set")
def no_cuda_home(box: Box) -> None:
    """BuildExtension on a machine without a toolkit."""
    _package(box, torch="cuda")
    box.hide("/usr/local")
    box.record("pip install -v --no-build-isolation ./fastops")


@case("malformed-cuda-home", "pip", r"nvcc not found at '/usr/local/cuda-13\.0:/bin/nvcc'")
def trailing_colon(box: Box) -> None:
    """CUDA_HOME was appended to like PATH and ends in a colon."""
    _package(box, torch="cuda")
    box.env |= {"CUDA_HOME": f"{TOOLKIT}:", "TORCH_CUDA_ARCH_LIST": "9.0"}
    box.record("pip install -v --no-build-isolation ./fastops")


@case("malformed-cuda-home", "bin", r"cuda-13\.0/bin/bin/nvcc")
def bin_folder(box: Box) -> None:
    """CUDA_HOME names the folder of the programs; torch calls the nvcc below it through ninja."""
    _package(box, torch="cuda")
    box.env |= {"CUDA_HOME": f"{TOOLKIT}/bin", "TORCH_CUDA_ARCH_LIST": "9.0"}
    box.record("set -x; pip wheel -v --no-build-isolation --no-deps ./fastops", stamped=True)


@case("arch-list-empty-no-gpu", "pip", r"IndexError: list index out of range")
def no_arch_list(box: Box) -> None:
    """No GPU is seen and TORCH_CUDA_ARCH_LIST is not set."""
    _package(box, torch="cuda")
    box.env["CUDA_HOME"] = str(TOOLKIT)
    box.record("pip install -v --no-build-isolation ./fastops")


@case("torch-api-removed", "pip", r"fatal error: THC/THC\.h: No such file or directory")
def thc_header(box: Box) -> None:
    """The source includes a header that torch gave up."""
    _package(box, torch="cuda", ops="#include <THC/THC.h>\nextern THCState *state;\n" + _OPS)
    box.env |= {"CUDA_HOME": str(TOOLKIT), "TORCH_CUDA_ARCH_LIST": "9.0", "MAX_JOBS": "1"}
    box.record("pip install -v --no-build-isolation ./fastops")


@case("cxx-standard-too-low", "torch-pip", r"#error.*C\+\+(17|20)")
def torch_std(box: Box) -> None:
    """setup.py still asks for C++14."""
    _package(
        box, torch="cuda", cxx=["-O2", "-std=c++14", "-fmax-errors=40"], nvcc=["-O2", "-std=c++14"]
    )
    box.env |= {"CUDA_HOME": str(TOOLKIT), "TORCH_CUDA_ARCH_LIST": "9.0", "MAX_JOBS": "1"}
    box.record("pip install -v --no-build-isolation ./fastops 2>&1")


@case("ninja-missing", "torch-jit", r"RuntimeError: Ninja is required to load C\+\+ extensions")
def no_ninja(box: Box) -> None:
    """An extension is compiled when it is first used, and there is no ninja."""
    box.add_python("3.11", "setuptools==80.9.0")
    box.add_torch()
    box.hide_file("/usr/bin/ninja")
    text = """\
        import torch
        from torch.utils.cpp_extension import load
        print("errors: none so far; torch", torch.__version__)
        ops = load("fastops_jit", ["ops.cpp"], verbose=True)
        """
    box.write({"train.py": text, "ops.cpp": _OPS})
    box.record("python train.py")


@case("cuda-home-not-set", "build-stamped", r"OSError: CUDA_HOME environment variable is not set")
def cpu_torch_build(box: Box) -> None:
    """A runner has a toolkit and the CPU build of torch, which never looks for one."""
    _package(box)
    box.record("set -x; nvcc --version; cd fastops; python setup.py bdist_wheel", stamped=True)


@case("libcuda-driver-missing", "torch", r"Found no NVIDIA driver on your system")
def torch_without_driver(box: Box) -> None:
    """torch for CUDA on a machine without any driver."""
    box.add_python("3.11")
    box.add_cuda_torch()
    text = """\
        import logging
        import torch
        logging.basicConfig(level=logging.INFO)
        logging.error("no error file given; writing none")
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).to("cuda")
        """
    box.write({"train.py": text})
    box.record("python train.py")


_TRITON = """
import torch
print("torch", torch.__version__, "error bound 1e-3")
from triton.backends.nvidia.driver import CudaDriver
driver = CudaDriver()
print("never printed")
"""


@case("triton-no-c-compiler", "runtime", r"RuntimeError: Failed to find C compiler")
def no_c_compiler(box: Box) -> None:
    """Triton compiles its driver module when it starts, and a slim image has no compiler."""
    box.add_python("3.11")
    box.add_cuda_torch()
    compilers = ("gcc", "cc", "clang", "x86_64-linux-gnu-gcc-12", "gcc-12")
    found = {str(Path("/usr/bin", name).resolve()) for name in compilers}
    box.hide_file(*(path for path in sorted(found) if Path(path).exists()))
    # Triton only looks whether a driver's library is there before it compiles.
    box.write({"serve.py": _TRITON, "driver/libcuda.so.1": ""})
    box.env["TRITON_LIBCUDA_PATH"] = "/home/builder/driver"
    box.record("python serve.py")


@case("built-without-cuda", "torch-cpu", r"^AssertionError: Torch not compiled with CUDA enabled")
def cpu_torch(box: Box) -> None:
    """The CPU build of torch was installed."""
    box.add_python("3.11")
    box.add_torch()
    text = """\
        import logging
        import torch
        logging.basicConfig(level=logging.INFO)
        logging.error("no error file given; writing none")
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
        print(model)
        model.to("cuda")
        """
    box.write({"train.py": text})
    box.record("python train.py")


_DECLARED = """
#include <Python.h>
#include <string>
{declaration}
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "_C", NULL, -1, NULL}};
PyMODINIT_FUNC PyInit__C(void) {{ {use}; return PyModule_Create(&module); }}
"""
_USE = """\
import torch
print("torch", torch.__version__)
import fastops.errors
from fastops import _C
"""


def _import_built(box: Box, declaration: str, use: str, flags: str = "") -> None:
    """Import a module that was built against another torch: its one symbol is of that torch."""
    box.add_python("3.11")
    box.add_torch()
    source = _DECLARED.format(declaration=declaration, use=use)
    box.write({"module.cpp": source, "train.py": _USE, **modules()})
    so = "fastops/fastops/_C.cpython-311-x86_64-linux-gnu.so"
    box.prepare(
        f"g++ -shared -fPIC {flags} -I/opt/python3.11/include/python3.11 module.cpp -o {so}"
    )
    box.env["PYTHONPATH"] = "/home/builder/fastops"
    box.record("python train.py")


@case("torch-abi-mismatch", "import", r"undefined symbol: _ZN3c104cuda9SetDeviceEi")
def other_torch(box: Box) -> None:
    """The module was built for a torch whose function took an int."""
    declaration = "namespace c10 { namespace cuda {\nvoid SetDevice(int);\n}}"
    _import_built(box, declaration, "c10::cuda::SetDevice(0)")


@case(
    "cxx11-abi-mismatch", "import", r"undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
)
def other_string(box: Box) -> None:
    """The module was built with the string ABI from before C++11."""
    declaration = """\
namespace c10 { namespace detail {
void torchCheckFail(const char *, const char *, unsigned, const std::string &);
}}"""
    _import_built(
        box,
        declaration,
        'c10::detail::torchCheckFail("", "", 1, std::string())',
        "-D_GLIBCXX_USE_CXX11_ABI=0",
    )


@case("torchvision-mismatch", "import", r"operator torchvision::nms does not exist")
def other_torchvision(box: Box) -> None:
    """torchvision of the year before is imported with a newer torch."""
    box.add_python("3.11", "numpy==2.2.6")
    box.add_torch()
    box.add_packages("torchvision-*")
    text = "import warnings\nwarnings.warn('error handling changed')\nimport torch, torchvision\n"
    box.write({"train.py": text})
    box.record("python train.py")
