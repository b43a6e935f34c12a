from __future__ import annotations

import pytest

from cuwheel.drafts.readers.flags import read_flags


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_reads_flag(text: str, found: list[tuple[str, str]]) -> None:
    assert [(one.kind, one.name) for one in read_flags(text, "setup.py:1")] == found
