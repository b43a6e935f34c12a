from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from cuwheel.build.compile.events import read_events
from cuwheel.lab.profile.chrome_trace import trace_text
from cuwheel.lab.profile.timeline import Timeline, make_timeline
from tests.support.build.event_lines import (
    compile_line,
    large_log,
    timeline_of,
    tool_line,
    two_files,
)


def slices(timeline: Timeline) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(trace_text(timeline, "x"))["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def test_traces_compile_with_wait_and_tool(tmp_path: Path) -> None:
    line = timeline_of(tmp_path, tool_line(asked=1, start=2.5), compile_line())

    spans = [(event["name"], event["ts"], event["dur"]) for event in slices(line)]

    assert spans == [
        ("a.cu", 0, 10_000_000),
        ("waiting for memory", 1_000_000, 1_500_000),
        ("cicc sm_90", 2_500_000, 6_500_000),
    ]


def test_nests_slices_of_each_thread(tmp_path: Path) -> None:
    """Viewers refuse slices of one thread that overlap without one holding the other."""
    parallel = [tool_line(compile="c1", arch="80", asked=t, start=t, end=t + 20) for t in (0, 9)]
    log = large_log(tmp_path, compiles=200, lanes=9)
    log.write_text(log.read_text() + "\n".join(parallel))

    events = slices(make_timeline(read_events(log)))

    open_until: dict[int, list[int]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        stack = open_until[event["tid"]]
        while stack and stack[-1] <= event["ts"]:
            stack.pop()
        assert not stack or event["ts"] + event["dur"] <= stack[-1]
        stack.append(event["ts"] + event["dur"])


def test_names_threads_and_counters(tmp_path: Path) -> None:
    events = json.loads(trace_text(timeline_of(tmp_path, *two_files()), "tiny-130"))["traceEvents"]

    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["tiny-130", "lane 1", "lane 2"]
    assert {event["name"] for event in events if event["ph"] == "C"} == {
        "memory expected",
        "memory peak",
    }
