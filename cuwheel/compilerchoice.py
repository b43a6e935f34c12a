"""What a recipe can't decide: which compilers build it, and whether nvcc looks at its host GCC."""

from __future__ import annotations

import re

# nvcc's documentation, "NVIDIA CUDA Compiler Driver NVCC", chapter "Command Option Description".
_UNCHECKED = re.compile(r"-?-allow-unsupported-compiler\b")
_OTHER_HOST = re.compile(r"-?-(ccbin|compiler-bindir)\b")

# Read by nvcc, CMake, PyTorch and setuptools. The toolchain's own stand in them.
_CHOSEN = (
    "CC",
    "CXX",
    "CUDACXX",
    "CUDAHOSTCXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDAToolkit_ROOT",
    "NVCC_CCBIN",
    "PATH",
    *(f"CMAKE_{language}_COMPILER" for language in ("C", "CXX", "CUDA", "CUDA_HOST")),
)


def choice_faults(name: str, text: str) -> list[str]:
    """What is wrong with a variable or definition of a recipe, one line each.

    Args:
        name: of an environment variable, or of a CMake cache variable.
        text: its value.
    """
    shown = f"{name}={text}"
    faults = []
    if _UNCHECKED.search(text):
        faults.append(
            f"{shown}: -allow-unsupported-compiler only moves the failure into the headers "
            "(`_Float32` is undefined) or into wrong code; the toolchain has a GCC that nvcc takes"
        )
    if name in _CHOSEN or _OTHER_HOST.search(text):
        faults.append(
            f"{shown}: the compilers are the toolchain's, which preflight has checked against each "
            "other; leave it out"
        )
    return faults
