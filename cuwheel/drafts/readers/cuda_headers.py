"""Which of CUDA's headers a source's C, C++ and Cython files include."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.drafts.readers.finding import Finding, place_of
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".pxd", ".pyx")
_ASIDE = re.compile(r"(^|/)(tests?|examples?|benchmarks?|docs?)/")
# `#include <cuda.h>`, Cython's `cdef extern from "cuda.h"`.
_INCLUDE = re.compile(
    r"^[ \t]*(?:#[ \t]*include|cdef extern from)[ \t]*[<\"']([\w/]+)\.h[>\"']", re.MULTILINE
)
# By the name that the linker takes; NVIDIA's documentation of each library names its headers.
_LIBRARIES = {
    "cuda": "cuda",
    "cudaGL": "cuda",
    "cudaProfiler": "cuda",
    "cuda_profiler_api": "cudart",
    "cuda_runtime": "cudart",
    "cuda_runtime_api": "cudart",
    "cublas_v2": "cublas",
    "cufftXt": "cufft",
    "cusolverDn": "cusolver",
    "cusolverSp": "cusolver",
}
_PLAIN = (
    "cublas",
    "cublasLt",
    "cudnn",
    "cufft",
    "curand",
    "cusparse",
    "nccl",
    "nvrtc",
    "nvJitLink",
)


def read_cuda_headers(tree: Path) -> Iterator[Finding]:
    """Each library whose header is included, at the first place."""
    known = _LIBRARIES | {name: name for name in _PLAIN}
    found: dict[str, Finding] = {}
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if path.suffix not in _SUFFIXES or _ASIDE.search(name) or not path.is_file():
            continue
        try:
            text = read_text(path, errors="replace")
        except OSError:
            continue  # a table of numbers, by its size
        for one in _INCLUDE.finditer(text):
            if library := known.get(one[1]):
                where = place_of(tree, path, text.count("\n", 0, one.start()) + 1)
                found.setdefault(library, Finding(kind="header", name=library, where=where))
    yield from found.values()
