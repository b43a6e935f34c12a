"""What is said of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.profile.advice import advise
from tests.support.eventlines import GIB, SOURCE, compile_line, timeline_of, tool_line, two_files

if TYPE_CHECKING:
    from pathlib import Path


def test_says_which_file_more_jobs_cannot_shorten(tmp_path: Path) -> None:
    said = advise(timeline_of(tmp_path, *two_files()))

    assert (
        "a.cu takes 10.0 s, 100 % of the build's 10.0 s: more jobs can't make the build "
        "shorter than that"
    ) in said


def test_says_which_tool_takes_most_of_slowest_file(tmp_path: Path) -> None:
    ptxas = tool_line(name="ptxas", arch="100", asked=9, start=9, end=10)

    said = advise(timeline_of(tmp_path, tool_line(), ptxas, compile_line()))

    assert "cicc sm_90 is 80 % of a.cu, the slowest file: 8.0 s" in said


def test_says_what_ran_alone_at_the_end(tmp_path: Path) -> None:
    last = compile_line(id="2", file=SOURCE + "b.cu", start=5, end=70)

    said = advise(timeline_of(tmp_path, compile_line(), last))

    assert (
        "for the last 1:00 only b.cu ran: started earlier, it would have run in parallel "
        "with others"
    ) in said


def test_says_how_long_memory_made_wait(tmp_path: Path) -> None:
    said = advise(timeline_of(tmp_path, *two_files(), tool_line(asked=0, start=4, compile="3")))

    assert (
        "compiles waited 5.0 s for memory in total, a.cu the longest, 4.0 s: more memory would "
        "help, more jobs won't"
    ) in said
    assert any(line.startswith("2.0 times the memory actually used") for line in said)


def test_says_what_was_killed_for_memory(tmp_path: Path) -> None:
    said = advise(timeline_of(tmp_path, tool_line(tries=3, peak=9 * GIB), compile_line()))

    assert "cicc sm_90 of a.cu ran out of memory and was started 3 times; it took 9.0 GiB" in said


def test_names_three_of_many_that_failed(tmp_path: Path) -> None:
    lines = [compile_line(id=f"{n}", file=f"{SOURCE}{n}.cu", status=1) for n in range(5)]

    assert "5 compiles failed: 0.cu, 1.cu, 2.cu and 2 more" in advise(timeline_of(tmp_path, *lines))


def test_says_when_nothing_was_compiled(tmp_path: Path) -> None:
    late = compile_line(id="2", start=30, end=40)

    said = advise(timeline_of(tmp_path, compile_line(), compile_line(id="3"), late))

    assert any(line.startswith("for 20.0 s, 50 % of the build, no compile ran") for line in said)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([compile_line(cached="")], "no cache was used for 1 compile"),
        ([compile_line()], "the cache had all of 1 compile"),
        ([tool_line(), compile_line()], "the cache had none of 1 compile"),
        (
            [tool_line(), compile_line(), compile_line(id="2", file="/b.cpp")],
            "the cache had 1 of 2 compiles. CUDA: 0 of 1. C++: 1 of 1",
        ),
    ],
)
def test_says_what_cache_held(lines: list[str], said: str, tmp_path: Path) -> None:
    assert said in advise(timeline_of(tmp_path, *lines))


def test_says_that_log_is_damaged(tmp_path: Path) -> None:
    said = advise(timeline_of(tmp_path, compile_line()[:30]))

    assert said[0] == "nothing was compiled"
    assert said[1].startswith("1 line of the event log can't be read")
