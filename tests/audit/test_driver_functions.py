from __future__ import annotations

import pytest

from cuwheel.audit.driver_functions import release_of_function


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
def test_tells_release_that_brought_function(name: str, release: str | None) -> None:
    assert release_of_function(name) == release
