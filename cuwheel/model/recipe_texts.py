"""What is wrong with the texts of a recipe: placeholders and settings of its build."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from cuwheel.errors import suggest
from cuwheel.model.recipe import PLACEHOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator


# nvcc's documentation, "NVIDIA CUDA Compiler Driver NVCC", chapter "Command Option Description".
_UNCHECKED = re.compile(r"-?-allow-unsupported-compiler\b")
_OTHER_HOST = re.compile(r"-?-(ccbin|compiler-bindir)\b")
# Read by nvcc, CMake, PyTorch and setuptools. The toolchain's own stand in them.
_CHOSEN = (
    *("CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"),
    *("NVCC_CCBIN", "PATH"),
    *(f"CMAKE_{language}_COMPILER" for language in ("C", "CXX", "CUDA", "CUDA_HOST")),
)


def faults_of_text(shown: str, text: str, known: tuple[str, ...]) -> Iterator[str]:
    """Placeholders that nobody fills, one line each.

    Args:
        shown: what the lines start with.
        text: with placeholders.
        known: those that may stand there.
    """
    try:
        asked = {field for _, field, _, _ in string.Formatter().parse(text)} - {None}
    except ValueError as error:
        yield f"{shown}: {error} (write a literal brace twice)"
        return
    for one in sorted(map(str, asked - set(known))):
        yield f"{shown}: {{{one}}}: {suggest(one, known)}"


def faults_of_setting(name: str, text: str) -> Iterator[str]:
    """What is wrong with a variable or definition of a build, one line each.

    Args:
        name: of an environment variable, or of a CMake cache variable.
        text: its value.
    """
    shown = f"{name}={text}"
    yield from faults_of_text(shown, text, PLACEHOLDERS)
    if _UNCHECKED.search(text):
        yield (
            f"{shown}: -allow-unsupported-compiler only moves the failure into the headers "
            "(`_Float32` is undefined) or into wrong code; the toolchain has a GCC that nvcc "
            "supports"
        )
    if name in _CHOSEN or _OTHER_HOST.search(text):
        yield (
            f"{shown}: the compilers come from the toolchain, and preflight checks that they are "
            "compatible; remove it"
        )
