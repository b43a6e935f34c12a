from __future__ import annotations

import re
from pathlib import Path

import pytest

from cuwheel.check.cuda.driver_functions import (
    functions_of,
    is_driver_function,
    release_of_function,
)


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("cuMemcpyBatchAsync", "12.8"),
        ("cuMemcpyBatchAsync_ptsz", "12.8"),
        ("cuMemcpyBatchAsync_v2", "13.0"),
        ("cuMemcpyBatchAsync_v2_ptsz", "13.0"),
        ("cuGraphAddNode", "12.2"),
        ("cuMemAlloc_v2", None),
        ("cudaMalloc", None),
    ],
)
def test_returns_release_that_added_function(name: str, release: str | None) -> None:
    assert release_of_function(name) == release


def test_names_are_those_of_the_header(cuda_home: Path) -> None:
    text = (cuda_home / "include" / "cuda.h").read_text()
    declared = set(re.findall(r"CUDAAPI\s+(cu[A-Z]\w*)\s*\(", text))
    renamed = set(
        re.findall(r"#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*_v\d+)\s*$", text, re.MULTILINE)
    )

    assert len(declared | renamed) > 500
    assert (declared | renamed) - set(functions_of("13.0")) == set()


def test_release_has_nothing_of_newer_ones() -> None:
    assert {"cuGraphGetId", "cuGraphGetId_ptsz"}.isdisjoint(functions_of("13.0"))
    assert {"cuGraphGetId", "cuGraphGetId_ptsz"} <= set(functions_of("13.1"))


@pytest.mark.parametrize(
    ("name", "is_known"), [("cuInit", True), ("cuMemcpy_ptds", True), ("cublasCreate_v2", False)]
)
def test_knows_function_by_name(name: str, *, is_known: bool) -> None:
    assert is_driver_function(name) == is_known
