"""A build's timeline, what is said of it, and the files that show it."""

from __future__ import annotations

import html.parser
import io
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
import rich.console

from cuwheel.build.launcher.events import read_events
from cuwheel.build.profile.advice import advise
from cuwheel.build.profile.chrome_trace import trace_text
from cuwheel.build.profile.page import page_text
from cuwheel.build.profile.report import print_profile, write_profile
from cuwheel.build.profile.timeline import make_timeline
from cuwheel.paths import ROOT
from cuwheel.system.quantities import show_share, show_size, show_time
from tests.support.eventlines import GIB, SOURCE, compile_line, large_log, tool_line, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.build.profile.timeline import Timeline

_EPOCH = 1_700_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def timeline_of(folder: Path, *lines: str) -> Timeline:
    return make_timeline(read_events(write_log(folder, *lines)))


def two_files(**changes: Any) -> tuple[str, ...]:
    """a.cu from 0 to 10 s, b.cu from 2 to 8 s."""
    return (
        tool_line(),
        compile_line(),
        tool_line(compile="2", asked=2, start=3, end=7, **changes),
        compile_line(id="2", file=SOURCE + "b.cu", start=2, end=8),
    )


# ---- the timeline


def test_starts_clock_at_first_compile(folder: Path) -> None:
    line = timeline_of(folder, compile_line(start=_EPOCH + 5, end=_EPOCH + 7))

    assert (line.begun, line.jobs[0].start, line.elapsed) == (_EPOCH + 5, 0, 2)


def test_puts_parallel_compiles_in_lanes(folder: Path) -> None:
    spans = [(0, 4), (1, 2), (2, 5), (4, 6)]
    lines = [compile_line(id=str(start), start=start, end=end) for start, end in spans]

    line = timeline_of(folder, *lines)

    assert ([job.lane for job in line.jobs], line.lanes) == ([0, 1, 1, 0], 2)


def test_never_draws_one_compile_over_another(folder: Path) -> None:
    line = make_timeline(read_events(large_log(folder, compiles=300, lanes=7)))

    last: dict[int, float] = defaultdict(float)
    for job in line.jobs:
        assert job.start >= last[job.lane]
        last[job.lane] = job.end


def test_shows_files_without_what_all_begin_with(folder: Path) -> None:
    line = timeline_of(folder, compile_line(), compile_line(id="2", file=SOURCE + "x/b.cu"))

    assert {job.file for job in line.jobs} == {"a.cu", "x/b.cu"}


def test_counts_waiting_apart_from_work(folder: Path) -> None:
    (job,) = timeline_of(folder, tool_line(asked=1, start=4), compile_line()).jobs

    assert (job.waited, job.worked) == (3, 7)


def test_counts_waiting_for_a_turn_apart_from_both(folder: Path) -> None:
    (job,) = timeline_of(folder, tool_line(called=1, asked=4, start=5), compile_line()).jobs

    assert (job.queued, job.waited, job.worked) == (3, 1, 6)


def test_takes_start_of_gate_for_no_waiting(folder: Path) -> None:
    (job,) = timeline_of(folder, tool_line(asked=0.9), compile_line()).jobs

    assert (job.waited, job.parts[0].tool.asked) == (0, 1)


def test_counts_no_waiting_while_another_tool_works(folder: Path) -> None:
    busy = tool_line(arch="80", asked=0, start=0, end=3)

    (job,) = timeline_of(folder, busy, tool_line(asked=1, start=4), compile_line()).jobs

    assert job.waited == 1
    assert [part.row for part in job.parts] == [0, 1]


def test_adds_memory_of_tools_that_run_together(folder: Path) -> None:
    line = timeline_of(folder, *two_files())

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
def test_tells_how_compile_ended(lines: list[str], state: str, folder: Path) -> None:
    assert [job.state for job in timeline_of(folder, *lines).jobs] == [state]


def test_shows_compile_that_was_killed(folder: Path) -> None:
    (job,) = timeline_of(
        folder, tool_line(), tool_line(name="ptxas", asked=9, start=9, end=12)
    ).jobs

    assert (job.archs, job.start, job.end, len(job.parts)) == (("90",), 0, 11, 2)


def test_leaves_out_gap_that_no_build_has(folder: Path) -> None:
    later = compile_line(id="2", start=_EPOCH, end=_EPOCH + 5)

    line = timeline_of(folder, compile_line(), later)

    assert (line.elapsed, line.left_out) == (15, _EPOCH - 10)


def test_lets_no_time_run_backwards(folder: Path) -> None:
    back = tool_line(asked=8, start=7, end=3)

    line = timeline_of(folder, back, compile_line(start=7.5, end=-3000))

    (job,) = line.jobs
    (part,) = job.parts
    assert line.clock_steps == 2
    assert 0 <= part.tool.asked <= part.tool.start <= part.tool.end <= job.end
    assert min(job.waited, job.worked) >= 0


def test_makes_timeline_of_nothing(folder: Path) -> None:
    line = timeline_of(folder)

    assert (line.jobs, line.lanes, line.elapsed, line.worked, line.peak) == ((), 0, 0, 0, 0)


def test_orders_slowest_by_work(folder: Path) -> None:
    waits = tool_line(compile="2", asked=0, start=15, end=19)
    line = timeline_of(
        folder, tool_line(), compile_line(), waits, compile_line(id="2", file="/b.cu", end=20)
    )

    assert [job.worked for job in line.slowest(10)] == [10, 5]
    assert line.share(line.slowest(1)[0]) == pytest.approx(2 / 3)


# ---- what launcher and gate wrote of a build by nvcc 13.0 and gcc 12, on two cores


@pytest.fixture(scope="module")
def recorded() -> Timeline:
    return make_timeline(read_events(ROOT / "tests" / "recorded" / "events.jsonl"))


def test_understands_recorded_build(recorded: Timeline) -> None:
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


# ---- advice


def test_says_which_file_more_jobs_cannot_shorten(folder: Path) -> None:
    said = advise(timeline_of(folder, *two_files()))

    assert (
        "a.cu takes 10.0 s, 100 % of the build's 10.0 s: more jobs can't make it shorter than that"
    ) in said


def test_says_which_tool_takes_most_of_slowest_file(folder: Path) -> None:
    ptxas = tool_line(name="ptxas", arch="100", asked=9, start=9, end=10)

    said = advise(timeline_of(folder, tool_line(), ptxas, compile_line()))

    assert "cicc sm_90 is 80 % of a.cu, the slowest file: 8.0 s" in said


def test_says_what_ran_alone_at_the_end(folder: Path) -> None:
    last = compile_line(id="2", file=SOURCE + "b.cu", start=5, end=70)

    said = advise(timeline_of(folder, compile_line(), last))

    assert (
        "for the last 1:00 only b.cu ran: started earlier, it would have run beside others"
    ) in said


def test_says_how_long_memory_made_wait(folder: Path) -> None:
    said = advise(timeline_of(folder, *two_files(), tool_line(asked=0, start=4, compile="3")))

    assert (
        "memory made compiles wait 5.0 s in all, a.cu the longest, 4.0 s: "
        "more memory would help, more jobs won't"
    ) in said
    assert any(line.startswith("2.0 times the memory that was taken") for line in said)


def test_says_what_was_killed_for_memory(folder: Path) -> None:
    said = advise(timeline_of(folder, tool_line(tries=3, peak=9 * GIB), compile_line()))

    assert (
        "cicc sm_90 of a.cu ended for want of memory and was started 3 times; it took 9.0 GiB"
    ) in said


def test_names_three_of_many_that_failed(folder: Path) -> None:
    lines = [compile_line(id=f"{n}", file=f"{SOURCE}{n}.cu", status=1) for n in range(5)]

    assert "5 compiles failed: 0.cu, 1.cu, 2.cu and 2 more" in advise(timeline_of(folder, *lines))


def test_says_when_nothing_was_compiled(folder: Path) -> None:
    late = compile_line(id="2", start=30, end=40)

    said = advise(timeline_of(folder, compile_line(), compile_line(id="3"), late))

    assert any(line.startswith("for 20.0 s, 50 % of the build, no compile ran") for line in said)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([compile_line(cached="")], "no cache was asked for 1 compile"),
        ([compile_line()], "the cache held all of 1 compile"),
        ([tool_line(), compile_line()], "the cache held none of 1 compile"),
        (
            [tool_line(), compile_line(), compile_line(id="2", file="/b.cpp")],
            "the cache held 1 of 2 compiles. CUDA: 0 of 1. C++: 1 of 1",
        ),
    ],
)
def test_says_what_cache_held(lines: list[str], said: str, folder: Path) -> None:
    assert said in advise(timeline_of(folder, *lines))


def test_says_that_log_is_damaged(folder: Path) -> None:
    said = advise(timeline_of(folder, compile_line()[:30]))

    assert said[0] == "nothing was compiled"
    assert said[1].startswith("1 line of the event log can't be read")


# ---- the trace


def slices(timeline: Timeline) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(trace_text(timeline, "x"))["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def test_traces_compile_with_wait_and_tool(folder: Path) -> None:
    line = timeline_of(folder, tool_line(asked=1, start=2.5), compile_line())

    found = [(event["name"], event["ts"], event["dur"]) for event in slices(line)]

    assert found == [
        ("a.cu", 0, 10_000_000),
        ("waiting for memory", 1_000_000, 1_500_000),
        ("cicc sm_90", 2_500_000, 6_500_000),
    ]


def test_nests_slices_of_each_thread(folder: Path) -> None:
    """Viewers refuse slices of one thread that overlap without one holding the other."""
    beside = [tool_line(compile="c1", arch="80", asked=t, start=t, end=t + 20) for t in (0, 9)]
    log = large_log(folder, compiles=200, lanes=9)
    log.write_text(log.read_text() + "\n".join(beside))

    found = slices(make_timeline(read_events(log)))

    open_until: dict[int, list[int]] = defaultdict(list)
    for event in sorted(found, key=lambda event: (event["ts"], -event["dur"])):
        stack = open_until[event["tid"]]
        while stack and stack[-1] <= event["ts"]:
            stack.pop()
        assert not stack or event["ts"] + event["dur"] <= stack[-1]
        stack.append(event["ts"] + event["dur"])


def test_names_threads_and_counters(folder: Path) -> None:
    events = json.loads(trace_text(timeline_of(folder, *two_files()), "tiny-130"))["traceEvents"]

    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["tiny-130", "lane 1", "lane 2"]
    assert {event["name"] for event in events if event["ph"] == "C"} == {
        "memory expected",
        "memory peak",
    }


# ---- the page


class _Seen(html.parser.HTMLParser):
    """What a page holds: rows of its table, its scripts, addresses that it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.scripts: list[str] = []
        self.addresses: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside == "td":
            self.rows[-1][-1] += data.strip()
        elif self._inside == "script":
            self.scripts[-1] += data


def test_puts_each_compile_in_table(folder: Path) -> None:
    inside = _Seen(page_text(timeline_of(folder, *two_files()), "x"))

    assert inside.rows[1:] == [
        ["a.cu", "nvcc", "done", "10.0 s", "67 %", "", "1.0 GiB", "0 s", "sm_90"],
        ["b.cu", "nvcc", "done", "5.0 s", "33 %", "1.0 s", "1.0 GiB", "2.0 s", "sm_90"],
    ]


def test_refers_to_nothing_outside_page(folder: Path) -> None:
    text = page_text(timeline_of(folder, *two_files()), "x")

    assert _Seen(text).addresses == []
    assert not re.search(r"https?:|url\(|import\s", text)


def test_gives_names_no_power_over_page(folder: Path) -> None:
    name = "</script><script>alert(1)</script>&amp;.cu"

    inside = _Seen(page_text(timeline_of(folder, compile_line(file=name)), name))

    assert [row[0] for row in inside.rows[1:]] == [name]
    assert len(inside.scripts) == 2
    assert json.loads(inside.scripts[0])["jobs"][0][1] == name


def test_makes_page_of_empty_log(folder: Path) -> None:
    text = page_text(timeline_of(folder), "x")

    assert "nothing was compiled" in text
    assert json.loads(_Seen(text).scripts[0])["jobs"] == []


def test_keeps_page_small(folder: Path) -> None:
    small = page_text(timeline_of(folder, *two_files()), "x")
    large = page_text(make_timeline(read_events(large_log(folder, 1000, 16))), "x")

    assert len(small) < 40_000
    assert (len(large) - len(small)) / 1000 < 700  # bytes for a compile with all its tools


# ---- files and the terminal


def test_writes_page_and_trace(folder: Path) -> None:
    events = read_events(write_log(folder, *two_files()))

    made = write_profile(events, folder / "new", "tiny-130")

    assert {path.name for path in (folder / "new").iterdir()} == {
        "profile.html",
        "profile.trace.json",
    }
    assert "<title>tiny-130: build profile</title>" in made.page.read_text("utf-8")
    assert json.loads(made.trace.read_text("utf-8"))["otherData"]["title"] == "tiny-130"


def test_prints_slowest_ten(folder: Path) -> None:
    lines = [compile_line(id=f"{n}", file=f"{SOURCE}{n:02}.cu", end=n + 1) for n in range(12)]
    profile = write_profile(read_events(write_log(folder, *lines)), folder, "x")
    written = io.StringIO()

    print_profile(profile, rich.console.Console(file=written, width=100))

    found = [line.split() for line in written.getvalue().splitlines() if line[2:5] == ".cu"]
    assert [row[0] for row in found] == [f"{n:02}.cu" for n in range(11, 1, -1)]
    assert found[0] == ["11.cu", "12.0", "s", "15", "%", "90"]
    assert str(profile.page) in written.getvalue()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (0.018, "0.02 s"), (9.96, "10.0 s"), (59.97, "1:00"), (250, "4:10"),
     (3599.6, "1:00:00"), (3723, "1:02:03"), (360_000, "100:00:00")],
)  # fmt: skip
def test_shows_times(seconds: float, shown: str) -> None:
    assert show_time(seconds) == shown


def test_shows_sizes_and_shares() -> None:
    assert [show_size(size) for size in (0, 512 << 20, 3 << 30)] == ["0 MiB", "512 MiB", "3.0 GiB"]
    assert [show_share(part) for part in (0, 0.001, 0.61, 1)] == ["0 %", "<1 %", "61 %", "100 %"]
