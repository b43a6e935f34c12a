"""Build the extension with the host compiler alone; all of CUDA comes from NVIDIA's wheels.

A build system that knows where CUDA is says so in CUDA_INCLUDE_FLAGS and CUDA_LINK_FLAGS, and takes
care of rpath and requirements. Else both are found here, in the wheels of this environment.
"""

from __future__ import annotations

import os
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, setup

PACKAGE = "cutensornet_sample"
LINKED = ("cudart", "cusolver", "cutensornet")  # what the code calls
# cuSOLVER's headers include cuBLAS's, those CCCL's, and the runtime's those in crt/, which were in
# nvcc's wheel before they got one of their own.
HEADERS = {"12": (*LINKED, "cublas", "cccl", "nvcc"), "13": (*LINKED, "cublas", "cccl")}
# From CUDA 13 on, NVIDIA's own wheels have no suffix; those around them have kept it.
DISTRIBUTIONS = {
    "12": ("nvidia-cuda-runtime-cu12", "nvidia-cusolver-cu12", "cutensornet-cu12"),
    "13": ("nvidia-cuda-runtime", "nvidia-cusolver", "cutensornet-cu13"),
}


class Cuda(NamedTuple):
    """What the compiler and the linker are told, and what the wheel will require."""

    compile: list[str]
    link: list[str]
    requires: list[str]


def given_cuda() -> Cuda | None:
    """Flags that the build system set."""
    names = ("CUDA_INCLUDE_FLAGS", "CUDA_LINK_FLAGS")
    if not all(name in os.environ for name in names):
        return None
    return Cuda(*(shlex.split(os.environ[name]) for name in names), requires=[])


def found_cuda() -> Cuda:
    """Flags for the wheels that are installed here."""
    from cuda.pathfinder import (  # noqa: PLC0415 - not wanted where the flags are given
        load_nvidia_dynamic_lib,
        locate_nvidia_header_directory,
    )

    libraries = {name: load_nvidia_dynamic_lib(name) for name in LINKED}
    cuda = Path(libraries["cudart"].abs_path).suffix[1:]  # of libcudart.so.13
    headers = {name: locate_nvidia_header_directory(name) for name in HEADERS[cuda]}
    # It also looks into the machine's own CUDA. What is linked from there is nobody else's.
    strays = [
        f"{name}: {found.abs_path if found else 'nowhere'}"
        for name, found in (*headers.items(), *libraries.items())
        if found is None or found.found_via != "site-packages"
    ]
    if strays:
        raise SystemExit(f"not in a wheel of NVIDIA's in this environment: {', '.join(strays)}")
    files = [Path(found.abs_path) for found in libraries.values()]
    folders = list(dict.fromkeys(file.parent for file in files))
    includes = dict.fromkeys(found.abs_path for found in headers.values())
    return Cuda(
        compile=[f"-I{path}" for path in includes],
        link=[
            *(f"-L{folder}" for folder in folders),
            *(f"-l:{file.name}" for file in files),
            *(f"-Wl,-rpath,{relative_rpath(folder)}" for folder in folders),
        ],
        requires=requirements(cuda),
    )


def relative_rpath(folder: Path) -> str:
    """`$ORIGIN/../nvidia/cu13/lib`: from the installed package to a folder of site-packages."""
    [site] = [path for path in folder.parents if path.name in ("site-packages", "dist-packages")]
    return f"$ORIGIN/../{folder.relative_to(site)}"


def requirements(cuda: str) -> list[str]:
    """At least what is linked against, below the next major release."""
    found = []
    for name in DISTRIBUTIONS[cuda]:
        major, minor, *_ = version(name).split(".")
        found.append(f"{name}>={major}.{minor},<{int(major) + 1}")
    return found


CUDA = given_cuda() or found_cuda()
setup(
    install_requires=["numpy", *CUDA.requires],
    ext_modules=[
        Extension(
            f"{PACKAGE}._core",
            sources=[f"src/core/{name}.cpp" for name in ("module", "network", "singular_values")],
            depends=[f"src/core/{name}.hpp" for name in ("checked", "compute")],
            language="c++",
            extra_compile_args=["-std=c++17", "-g0", "-fvisibility=hidden", *CUDA.compile],
            extra_link_args=["-Wl,--as-needed", "-Wl,-z,relro,-z,now", *CUDA.link],
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            py_limited_api=True,
        )
    ],
    # The stable ABI of Python 3.10: one wheel serves that and all later ones.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
