"""Builds that go well with output that looks bad: no cause may be found in these logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.logs.cases import WENT_WELL, case
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


def _finish(box: Box, script: str, *, stamped: bool = False) -> None:
    if status := box.record(script, stamped=stamped):
        raise MissingPartError(f"a build that should go well ended with {status}")


@case(WENT_WELL, "cmake-checks", r"Performing Test \S+ - Failed")
def cmake_checks(box: Box) -> None:
    """Configure tests fail on purpose; files are called after errors; warnings are shown."""
    names = kernel_names(14)
    extra = """\
include(CheckIncludeFileCXX)
include(CheckSymbolExists)
include(CheckCXXCompilerFlag)
check_include_file_cxx(cudnn.h HAVE_CUDNN)
check_include_file_cxx(nccl.h HAVE_NCCL)
check_symbol_exists(strlcpy string.h HAVE_STRLCPY)
check_cxx_compiler_flag(-Wno-error=no-such-thing HAVE_NO_ERROR)
check_cxx_compiler_flag(-fno-such-flag HAVE_NO_FLAG)
find_package(MPI)
find_package(OpenMP)
find_package(pybind11 QUIET)
if(NOT HAVE_NCCL)
  message(WARNING "NCCL not found: the error-recovery collectives are not built")
endif()
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)"""
    text = cmake_lists([f"csrc/{name}.cu" for name in names], extra=extra)
    box.write({"fastops/CMakeLists.txt": text, **kernels(names)})
    _finish(
        box,
        "cmake -S fastops -B build -DCMAKE_CUDA_ARCHITECTURES=90"
        " -DCMAKE_CUDA_FLAGS=-Werror=cross-execution-space-call"
        " && make -C build -j2 VERBOSE=1",
    )


@case(WENT_WELL, "pip-warnings", r"WARNING|warning")
def pip_warnings(box: Box) -> None:
    """pip install of a package with nvcc's and setuptools' warnings, and a git that fails."""
    box.add_python("3.12")
    command = f"{TOOLKIT}/bin/nvcc -O2 -arch=sm_90 -Xcompiler -fPIC,-Wall,-Werror=return-type"
    text = "import subprocess\nsubprocess.run(['git', 'rev-parse', 'HEAD'])\n"
    text += nvcc_setup(command, libraries="cudart", link=f"-L{TOOLKIT}/lib64")
    box.write({"fastops/setup.py": text, "fastops/csrc/module.c": MODULE})
    box.write(kernels(kernel_names(5), "fastops/csrc") | modules())
    _finish(box, "pip install -v ./fastops")


@case(WENT_WELL, "retried-download", r"Retrying|Connection refused")
def retried_download(box: Box) -> None:
    """The first index does not answer, pip tries it again, and takes all from the second."""
    box.add_python("3.12")
    box.env["PIP_INDEX_URL"] = "http://wheels.example.org:8081/simple"
    box.env["PIP_EXTRA_INDEX_URL"] = "http://mirror.example:8080/simple"
    box.env["PIP_TRUSTED_HOST"] = "wheels.example.org mirror.example"
    box.env["PIP_RETRIES"] = "3"
    box.write({"fastops/pyproject.toml": pyproject("setuptools==80.9.0"), **modules()})
    _finish(box, "pip install -v filelock networkx mpmath", stamped=True)


@case(WENT_WELL, "tests-named-error", r"test_error|xfail|FAILED")
def tests_named_error(box: Box) -> None:
    """A test run whose names and captured output speak of errors."""
    box.add_python("3.12")
    names = ("out_of_memory", "no_kernel_image", "driver_too_old", "undefined_symbol", "killed")
    text = "import sys, unittest\nclass TestErrors(unittest.TestCase):\n"
    for name in names:
        text += f"    def test_error_{name}(self):\n"
        told = f"checks that RuntimeError: CUDA error: {name} is told"
        text += f"        print({told!r}, file=sys.stderr)\n"
        text += "        with self.assertRaises(RuntimeError):\n"
        text += f"            raise RuntimeError('CUDA error: {name}')\n"
    text += "    @unittest.expectedFailure\n    def test_fatal(self):\n        self.fail('known')\n"
    box.write({"fastops/tests/test_error.py": text, **modules()})
    _finish(box, "python -m unittest discover -v -s fastops/tests")
