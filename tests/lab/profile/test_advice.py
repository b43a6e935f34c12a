"""Advice on builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.lab.profile.advice import advise
from tests.support.build.event_lines import (
    GIB,
    SOURCE,
    compile_line,
    timeline_of,
    tool_line,
    two_files,
)

_LAST = compile_line(id="2", file=SOURCE + "b.cu", start=5, end=70)
_PTXAS = tool_line(name="ptxas", arch="100", asked=9, start=9, end=10)
_FAILED = [compile_line(id=f"{n}", file=f"{SOURCE}{n}.cu", status=1) for n in range(5)]


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (
            two_files(),
            "a.cu takes 10.0 s, 100 % of the build's 10.0 s: ",
        ),
        (
            [tool_line(), _PTXAS, compile_line()],
            "cicc sm_90 is 80 % of a.cu, the slowest file: 8.0 s",
        ),
        (
            [compile_line(), _LAST],
            "for the last 1:00 only b.cu ran: ",
        ),
        (
            [*two_files(), tool_line(asked=0, start=4, compile="3")],
            "compiles waited 5.0 s for memory in total, a.cu the longest, 4.0 s: ",
        ),
        (
            [tool_line(tries=3, peak=9 * GIB), compile_line()],
            "cicc sm_90 of a.cu ran out of memory and was started 3 times; it took 9.0 GiB",
        ),
        (_FAILED, "5 compiles failed: 0.cu, 1.cu, 2.cu and 2 more"),
        (
            [compile_line(), compile_line(id="3"), compile_line(id="2", start=30, end=40)],
            "for 20.0 s, 50 % of the build, no compile ran: ",
        ),
        (
            [*two_files(), tool_line(asked=0, start=4, compile="3")],
            "2.0 times the memory actually used was expected: ",
        ),
        ([compile_line(cached="")], "no cache was used for 1 compile"),
        ([compile_line()], "the cache had all of 1 compile"),
        ([tool_line(), compile_line()], "the cache had none of 1 compile"),
        (
            [tool_line(), compile_line(), compile_line(id="2", file="/b.cpp")],
            "the cache had 1 of 2 compiles. CUDA: 0 of 1. C++: 1 of 1",
        ),
    ],
)
def test_advises_on_what_a_build_shows(lines: list[str], advice: str, tmp_path: Path) -> None:
    assert any(line.startswith(advice) for line in advise(timeline_of(tmp_path, *lines)))


def test_reports_a_damaged_log(tmp_path: Path) -> None:
    advice = advise(timeline_of(tmp_path, compile_line()[:30]))

    assert advice[0] == "nothing was compiled"
    assert advice[1].startswith("1 line of the event log can't be read")
