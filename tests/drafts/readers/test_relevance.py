from __future__ import annotations

import pytest

from cuwheel.drafts.readers.finding import Finding
from cuwheel.drafts.readers.relevance import is_relevant


@pytest.mark.parametrize(
    ("guard", "where", "counts"),
    [
        ("", "setup.py:1", True),
        ("CUDA", "setup.py:1", True),
        ("HIP_BUILD", "setup.py:1", False),
        ("not (HIP_BUILD)", "setup.py:1", True),
        ("NOT (APPLE) AND NOT WIN32", "CMakeLists.txt:1", True),
        ("CUDA AND TINY_DEBUG", "CMakeLists.txt:1", False),
        ("not SKIP and IS_ROCM", "setup.py:1", False),
        ("not SKIP and not IS_ROCM", "setup.py:1", True),
        ("NOT TINY_DEBUG", "CMakeLists.txt:1", True),
        ("LINE_INFO, off by default", "setup.py:1", False),
        ("", "src/ggml-hip/CMakeLists.txt:1", False),
        ("", "src/shipping/CMakeLists.txt:1", True),
    ],
)
def test_judges_by_guard_and_folder(guard: str, where: str, counts: bool) -> None:  # noqa: FBT001
    finding = Finding(kind="flag", name="-lineinfo", where=where, guard=guard)

    assert is_relevant(finding, {"TINY_DEBUG"}) is counts
