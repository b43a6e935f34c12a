"""A build's timeline in Chrome's trace event format, for chrome://tracing and Perfetto.

Source: "Trace Event Format", the document that chromium.org links to. The trace is in its object
form, with complete events (`X`, which have to nest within a thread), counters (`C`) and metadata
(`M`). Times are whole microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cuwheel.lab.profile.timeline import CompileJob, Phase, Timeline

_PROCESS = 1
_MICRO = 1_000_000
_MIB = 1 << 20


def trace_text(timeline: Timeline, title: str) -> str:
    """Return the trace as JSON text.

    Each lane of the timeline is a thread, in which tools lie within their compile. Tools that run
    in parallel to another tool of their compile have a thread of their own, named after the lane.
    """
    # Rows of tools in the widest compile.
    depth = max((part.row + 1 for job in timeline.jobs for part in job.parts), default=1)
    threads: dict[tuple[int, int], None] = {}
    events: list[dict[str, Any]] = []
    for job in timeline.jobs:
        threads[job.lane, 0] = None
        events.append(_compile_event(job, _thread(job.lane, 0, depth)))
        for part in job.parts:
            threads[job.lane, part.row] = None
            events += _tool_events(part, _thread(job.lane, part.row, depth))
    names = [_name("process_name", 0, title)]
    names += [
        _name("thread_name", _thread(lane, row, depth), f"lane {lane + 1}" + ", beside" * row)
        for lane, row in sorted(threads)
    ]
    content = {
        "traceEvents": [*names, *events, *_counters(timeline)],
        "displayTimeUnit": "ms",
        "otherData": {"title": title, "begun": timeline.begun},
    }
    return json.dumps(content, separators=(",", ":")) + "\n"


def _thread(lane: int, row: int, depth: int) -> int:
    """Return a thread's number, which is its order on the screen too; 0 would mean idle."""
    return lane * depth + row + 1


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": thread, "args": {"name": name}}


def _compile_event(job: CompileJob, thread: int) -> dict[str, Any]:
    facts = {
        "compiler": job.name,
        "state": job.state,
        "archs": " ".join(job.archs),
        "waited for memory, s": round(job.waited, 3),
        "waited for a free job slot, s": round(job.queued, 3),
        "peak, MiB": job.peak // _MIB,
    }
    return _slice(job.file, f"compile,{job.state}", (job.start, job.end), thread, facts)


def _tool_events(part: Phase, thread: int) -> Iterator[dict[str, Any]]:
    tool = part.tool
    if tool.start > tool.asked:
        facts: dict[str, Any] = {"expected, MiB": tool.expected // _MIB}
        yield _slice("waiting for memory", "memory", (tool.asked, tool.start), thread, facts)
    facts = {
        "status": tool.status,
        "tries": tool.tries,
        "peak, MiB": tool.peak // _MIB,
        "expected, MiB": tool.expected // _MIB,
    }
    yield _slice(part.name, "tool", (tool.start, tool.end), thread, facts)


def _slice(
    name: str, category: str, span: tuple[float, float], thread: int, facts: dict[str, Any]
) -> dict[str, Any]:
    start, end = (round(time * _MICRO) for time in span)  # both ends rounded: nesting stays
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": _PROCESS,
        "tid": thread,
        "ts": start,
        "dur": end - start,
        "args": facts,
    }


def _counters(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield a counter for each curve: a viewer stacks the curves of one counter."""
    for point in timeline.memory:
        for name, size in (("expected", point.expected), ("peak", point.peak)):
            yield {
                "ph": "C",
                "name": f"memory {name}",
                "cat": "memory",
                "pid": _PROCESS,
                "ts": round(point.time * _MICRO),
                "args": {"MiB": size // _MIB},
            }
