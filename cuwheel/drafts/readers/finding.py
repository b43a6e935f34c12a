"""What was found in a source, and where: the words that the readers and the draft share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal[
    "variable",  # an environment variable that the build reads
    "computed variable",  # one whose name is made while the build runs
    "download",  # a call that fetches something
    "program",  # a program that it starts
    "missing",  # a file or folder that the build names and the source lacks
    "gencode",  # an arch in a compiler flag
    "flag",  # a compiler flag that a reproducible or portable wheel can't have
    "gpu",  # a question for a GPU
    "no ninja",  # PyTorch's builds without ninja
    "library",  # a library that is linked
    "header",  # one of CUDA's headers is included: its library
    "extension",  # an extension module
    "stable ABI",  # one wheel for several Pythons
    "import",  # a package that the build imports
    "runtime import",  # one that the installed package imports
    "option",  # CMake: an option
    "archs",  # CMake: `CMAKE_CUDA_ARCHITECTURES` is set
    "language",  # CMake: a language is enabled
    "package",  # CMake: `find_package`
    "minimum",  # CMake: the oldest release that it takes
    "unread",  # a file that can't be parsed
]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fact of a source.

    Attributes:
        kind: of fact.
        name: the variable, library, module, option, …
        where: file and line, `setup.py:43`.
        default: its value unless somebody says otherwise; empty: none, or not a plain one.
        wants: the value that the code compares it with, `TRUE`; empty: none.
        guard: the condition that it stands under, as it is written; empty: none is known.
    """

    kind: Kind
    name: str
    where: str
    default: str = ""
    wants: str = ""
    guard: str = ""


def place_of(tree: Path, file: Path, line: int) -> str:
    """`setup.py:43`."""
    return f"{file.relative_to(tree).as_posix()}:{line}"
