from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.drafts.readers.cuda_headers import read_cuda_headers
from tests.support.drafted import write_tree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "library"),
    [
        ("#include <cuda.h>", "cuda"),
        ('  #  include "cuda_runtime_api.h"', "cudart"),
        ('cdef extern from "cublas_v2.h":', "cublas"),
        ("#include <curand.h>", "curand"),
    ],
)
def test_names_library_of_header(line: str, library: str, tmp_path: Path) -> None:
    [found] = read_cuda_headers(write_tree(tmp_path, {"src/a.hpp": f"// text\n{line}\n"}))

    assert (found.kind, found.name, found.where) == ("header", library, "src/a.hpp:2")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.cpp", "#include <cudawrapper.h>"),
        ("a.cpp", "// #include <cuda.h>"),
        ("tests/a.cpp", "#include <cuda.h>"),
        ("a.md", "#include <cuda.h>"),
    ],
)
def test_passes_over_others(name: str, line: str, tmp_path: Path) -> None:
    assert not [*read_cuda_headers(write_tree(tmp_path, {name: line}))]
