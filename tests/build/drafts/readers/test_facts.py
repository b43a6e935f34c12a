from __future__ import annotations

import pytest

from cuwheel.build.drafts.readers.facts import SourceFact, read_flags


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("arch=compute_90a,code=sm_90a", [("gencode", "90a")]),
        ("-gencode arch=compute_80,code=compute_80", [("gencode", "80")]),
        ("-arch=sm_75", [("gencode", "75")]),
        ("-lineinfo", [("flag", "-lineinfo")]),
        ("--generate-line-info", [("flag", "-lineinfo")]),
        ("-O3 -march=native", [("flag", "-march=native")]),
        ("--threads", [("flag", "--threads")]),
        ("-lcublas -lcudart", [("library", "cublas"), ("library", "cudart")]),
        ("-l:libnccl.so.2", [("library", "nccl")]),
        ("-linux", []),
        ("a text with -l and --threadsafe", []),
    ],
)
def test_reads_flag(text: str, flags: list[tuple[str, str]]) -> None:
    assert [(fact.kind, fact.name) for fact in read_flags(text, "setup.py:1")] == flags


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
        ("", "src/ggml-hip/CMakeLists.txt:1", False),
        ("", "src/shipping/CMakeLists.txt:1", True),
    ],
)
def test_judges_by_guard_and_folder(guard: str, where: str, counts: bool) -> None:  # noqa: FBT001
    fact = SourceFact(kind="flag", name="-lineinfo", where=where, guard=guard)

    assert fact.is_relevant({"TINY_DEBUG"}) is counts
