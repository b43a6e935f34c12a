"""Facts that a source's build files state: their kinds, the flags, and which count for CUDA."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal[
    "variable",  # an environment variable that the build reads
    "computed variable",  # one whose name is made while the build runs
    "download",  # a call that fetches something
    "program",  # a program that the build starts
    "missing",  # a file that the build compiles and the source lacks
    "gencode",  # an arch in a compiler flag
    "flag",  # a compiler flag that a reproducible or portable wheel can't have
    "gpu",  # a check for a GPU
    "only with gpu",  # one that ends the build where there is none
    "no ninja",  # PyTorch's builds without ninja
    "torch extension",  # PyTorch's build helpers
    "library",  # a library that is linked
    "header",  # one of CUDA's headers is included: its library
    "extension",  # an extension module
    "stable ABI",  # one wheel for several Pythons
    "import",  # a package that the build imports
    "optional import",  # one that it does without, where it is missing
    "import of package",  # a package that the finished one imports first
    "option",  # CMake: an option
    "archs",  # CMake: `CMAKE_CUDA_ARCHITECTURES` is set
    "language",  # CMake: a language is enabled
    "package",  # CMake: `find_package`
    "minimum",  # CMake: the oldest release that it takes
    "unread",  # a file that can't be parsed
]

OFF = {"OFF", "FALSE", "NO", "0", "", "N"}  # what CMake takes for false

# nvcc's documentation, "NVIDIA CUDA Compiler Driver NVCC": `-gencode arch=compute_90,code=sm_90`,
# `-arch=sm_90`.
_SHOWN = 3  # places that are named
_GENCODE = re.compile(r"code=\[?(?:sm|compute)_(\d+[af]?)|-arch[= ]sm_(\d+[af]?)")
_LIBRARY = re.compile(r"(?:^|\s)-l(?!inux\b):?(?:lib)?(\w[\w+-]*?)(?:\.(?:so|a)[\d.]*)?(?=\s|$)")
# Flags with their effect on a wheel; `--threads` is one of several spellings.
FLAGS = {
    "-lineinfo": "it embeds absolute paths and timestamps of all sources: remove it with a patch",
    "-march=native": "the wheel would only run on CPUs like this machine's: switch it off",
    "--threads": "nvcc compiles for several archs in parallel, each of which needs memory",
}
_SPELLINGS = {
    "-lineinfo": re.compile(r"(?<![\w-])--?(?:generate-)?line-?info\b"),
    "-march=native": re.compile(r"-m(?:arch|cpu|tune)=native"),
    "--threads": re.compile(r"(?<![\w-])(?:--threads|-t)[= ]?\d*$"),
}

# Conditions and folders of other platforms and accelerators.
_OTHER_CONDITION = re.compile(
    r"APPLE|WIN32|MSVC|EMSCRIPTEN|ANDROID|IS_ROCM|ROCM|HIP|HIP_BUILD|IS_HIP\w*|IS_WINDOWS|win32"
    r"|\w*_(?:HIP|ROCM|MUSA|SYCL|METAL|VULKAN|OPENCL|CANN|OPENVINO|WEBGPU|HEXAGON|ZDNN)"
)
_OTHER_FOLDER = re.compile(
    r"(^|/)([a-z0-9]+[-_.])*(hip|rocm|musa|sycl|metal|vulkan|opencl|cann|openvino|webgpu|hexagon"
    r"|zdnn|zendnn|android|riscv(64)?|arm64|mingw\d*|windows|virtgpu)([-_.][a-z0-9]+)*[/.]",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?P<not>\b(?:NOT|not)\b[\s(]*)?(?<![\w.])(?!(?:not|NOT|and|AND|or|OR)\b)"
    r"(?P<name>[A-Za-z_]\w*)"
)


@dataclass(frozen=True, kw_only=True)
class SourceFact:
    """A fact of a source.

    Attributes:
        where: file and line, `setup.py:43`.
        default: the value of a variable that isn't set; empty: none, or not a literal.
        wants: the value that the code compares it with, `TRUE`; empty: none.
        guard: the condition around it, as it is written; empty: none is known.
    """

    kind: Kind
    name: str
    where: str
    default: str = ""
    wants: str = ""
    guard: str = ""

    def is_relevant(self, off: Collection[str]) -> bool:
        """Return True if it counts for CUDA on Linux; names in `off` are false in conditions."""
        return _OTHER_FOLDER.search(self.where) is None and not any(
            not term["not"] and (term["name"] in off or _OTHER_CONDITION.fullmatch(term["name"]))
            for term in _NAME.finditer(self.guard)
        )


def place_of(tree: Path, file: Path, line: int) -> str:
    """Return `setup.py:43`."""
    return f"{file.relative_to(tree).as_posix()}:{line}"


def locations(facts: Iterable[SourceFact]) -> str:
    """Return `setup.py:4, setup.py:9, …`."""
    places = list(dict.fromkeys(fact.where for fact in facts))
    return ", ".join(places[:_SHOWN]) + (", …" if len(places) > _SHOWN else "")


def read_flags(text: str, where: str, guard: str = "") -> Iterator[SourceFact]:
    """Yield every compiler flag in a text of a build, or in one argument."""
    for first, second in _GENCODE.findall(text):
        yield SourceFact(kind="gencode", name=first or second, where=where, guard=guard)
    for name, pattern in _SPELLINGS.items():
        if pattern.search(text):
            yield SourceFact(kind="flag", name=name, where=where, guard=guard)
    for name in _LIBRARY.findall(text) if "ineinfo" not in text else ():
        yield SourceFact(kind="library", name=name, where=where, guard=guard)
