"""Timelines of compiles from an event log."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.compile.events import read_events
from cuwheel.lab.profile.timeline import Timeline, make_timeline
from tests.support.build.event_lines import (
    GIB,
    SOURCE,
    compile_line,
    large_log,
    timeline_of,
    tool_line,
    two_files,
)

_EPOCH = 1_700_000_000.0


def test_starts_clock_at_first_compile(tmp_path: Path) -> None:
    line = timeline_of(tmp_path, compile_line(start=_EPOCH + 5, end=_EPOCH + 7))

    assert (line.begun, line.jobs[0].start, line.elapsed) == (_EPOCH + 5, 0, 2)


def test_puts_parallel_compiles_in_lanes(tmp_path: Path) -> None:
    spans = [(0, 4), (1, 2), (2, 5), (4, 6)]
    lines = [compile_line(id=str(start), start=start, end=end) for start, end in spans]

    line = timeline_of(tmp_path, *lines)

    assert ([job.lane for job in line.jobs], line.lanes) == ([0, 1, 1, 0], 2)


def test_never_draws_one_compile_over_another(tmp_path: Path) -> None:
    line = make_timeline(read_events(large_log(tmp_path, compiles=300, lanes=7)))

    last: dict[int, float] = defaultdict(float)
    for job in line.jobs:
        assert job.start >= last[job.lane]
        last[job.lane] = job.end


def test_shortens_files_by_their_common_folder(tmp_path: Path) -> None:
    line = timeline_of(tmp_path, compile_line(), compile_line(id="2", file=SOURCE + "x/b.cu"))

    assert {job.file for job in line.jobs} == {"a.cu", "x/b.cu"}


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ({"asked": 1, "start": 4}, (0, 3, 7)),
        ({"called": 1, "asked": 4, "start": 5}, (3, 1, 6)),
    ],
)
def test_counts_waiting_apart_from_work(
    times: dict[str, float], seconds: tuple[float, float, float], tmp_path: Path
) -> None:
    (job,) = timeline_of(tmp_path, tool_line(**times), compile_line()).jobs

    assert (job.queued, job.waited, job.worked) == seconds


def test_ignores_the_start_of_the_gate(tmp_path: Path) -> None:
    (job,) = timeline_of(tmp_path, tool_line(asked=0.9), compile_line()).jobs

    assert (job.waited, job.parts[0].tool.asked) == (0, 1)


def test_counts_no_waiting_while_another_tool_works(tmp_path: Path) -> None:
    busy = tool_line(arch="80", asked=0, start=0, end=3)

    (job,) = timeline_of(tmp_path, busy, tool_line(asked=1, start=4), compile_line()).jobs

    assert job.waited == 1
    assert [part.row for part in job.parts] == [0, 1]


def test_adds_memory_of_tools_that_run_together(tmp_path: Path) -> None:
    line = timeline_of(tmp_path, *two_files())

    curve = [(point.time, point.expected // GIB, point.peak // GIB) for point in line.memory]
    assert curve == [(1, 2, 1), (3, 4, 2), (7, 2, 1), (9, 0, 0)]
    assert (line.peak, line.jobs[0].peak) == (2 * GIB, GIB)


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ([compile_line()], "hit"),
        ([tool_line(), compile_line()], "done"),
        ([compile_line(cached="")], "done"),
        ([tool_line(), compile_line(status=1)], "failed"),
        ([tool_line()], "cut off"),
        ([tool_line(compile="")], "done"),
    ],
)
def test_finds_the_state_of_a_compile(lines: list[str], state: str, tmp_path: Path) -> None:
    assert [job.state for job in timeline_of(tmp_path, *lines).jobs] == [state]


def test_shows_compile_that_was_killed(tmp_path: Path) -> None:
    (job,) = timeline_of(
        tmp_path, tool_line(), tool_line(name="ptxas", asked=9, start=9, end=12)
    ).jobs

    assert (job.archs, job.start, job.end, len(job.parts)) == (("90",), 0, 11, 2)


def test_orders_times_of_a_clock_that_was_set_back(tmp_path: Path) -> None:
    back = tool_line(asked=8, start=7, end=3)

    line = timeline_of(tmp_path, back, compile_line(start=7.5, end=-3000))

    (job,) = line.jobs
    (part,) = job.parts
    assert 0 <= part.tool.asked <= part.tool.start <= part.tool.end <= job.end
    assert min(job.waited, job.worked) >= 0


def test_makes_timeline_of_nothing(tmp_path: Path) -> None:
    line = timeline_of(tmp_path)

    assert (line.jobs, line.lanes, line.elapsed, line.worked, line.peak) == ((), 0, 0, 0, 0)


def test_orders_slowest_by_work(tmp_path: Path) -> None:
    waits = tool_line(compile="2", asked=0, start=15, end=19)
    line = timeline_of(
        tmp_path, tool_line(), compile_line(), waits, compile_line(id="2", file="/b.cu", end=20)
    )

    assert [job.worked for job in line.slowest(10)] == [10, 5]
    assert line.share(line.slowest(1)[0]) == pytest.approx(2 / 3)


@pytest.fixture(scope="module")
def recorded() -> Timeline:
    # Of a build by nvcc 13.0 and gcc 12, on two cores.
    return make_timeline(read_events(ROOT / "tests" / "recorded" / "events.jsonl"))


def test_reads_recorded_build(recorded: Timeline) -> None:
    states = {job.file: (job.language, job.state, job.archs) for job in recorded.jobs}

    assert states == {
        "k0.cu": ("CUDA", "done", ("80", "90")),
        "k5.cu": ("CUDA", "done", ("80", "90")),
        "bad.cu": ("CUDA", "failed", ("80", "90")),
        "api.cpp": ("C++", "done", ()),
    }
    assert recorded.damaged == 0


def test_finds_tools_of_recorded_compile_in_their_order(recorded: Timeline) -> None:
    (slowest,) = recorded.slowest(1)

    names = [part.name for part in slowest.parts]
    assert names == ["cudafe++", *("cicc sm_80", "ptxas sm_80", "cicc sm_90", "ptxas sm_90"), "g++"]
    assert {part.row for part in slowest.parts} == {0}
