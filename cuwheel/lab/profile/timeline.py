"""The timeline of a build: its compiles in parallel lanes with their memory, from the event log."""

from __future__ import annotations

import heapq
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from cuwheel.build.compile.events import Compile, Events, HitCount, ProgramRun, hit_counts

State = Literal["hit", "done", "failed", "cut off"]
_Item = TypeVar("_Item")
_Span = tuple[float, float]

# Seconds between request and start that don't count as waiting: the gate's own start on a busy
# machine.
_AT_ONCE = 0.2


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A tool in its compile.

    Attributes:
        tool: its times are seconds since the timeline's start; `asked` equals `start` where it got
            memory at once.
        row: 0, or more where tools of one compile run at the same time.
    """

    tool: ProgramRun
    row: int

    @property
    def name(self) -> str:
        """The tool with its arch, `cicc sm_90`."""
        return f"{self.tool.name} sm_{self.tool.arch}" if self.tool.arch else self.tool.name


@dataclass(frozen=True, kw_only=True)
class CompileJob:
    """One compile in the timeline; times are seconds, from the timeline's start.

    Attributes:
        file: its source, without the folder that all sources share.
        state: `hit`: from the cache; `cut off`: it was ended from outside, and only its tools are
            in the log.
        waited: seconds in which all of it waited for memory.
        queued: seconds in which all of it waited for its turn among the build's jobs.
        peak: bytes, the most that its tools took together.
        lane: among parallel compiles, from 0.
    """

    file: str
    name: str
    language: str
    archs: tuple[str, ...]
    state: State
    start: float
    end: float
    waited: float
    queued: float
    peak: int
    parts: tuple[Phase, ...]
    lane: int

    @property
    def worked(self) -> float:
        """Seconds from start to end, without those in which it waited for memory or its turn."""
        return self.end - self.start - self.waited - self.queued


@dataclass(frozen=True, kw_only=True)
class MemoryPoint:
    """Memory from this moment until the next point's.

    Attributes:
        time: seconds since the timeline's start.
        expected: bytes that the running tools together were expected to take at most.
        peak: bytes that they took at most, each at its own worst moment: an upper bound.
    """

    time: float
    expected: int
    peak: int


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A build as its compiles show it.

    Attributes:
        elapsed: seconds from the first start to the last end.
        begun: seconds since 1970 at the timeline's start.
    """

    jobs: tuple[CompileJob, ...]
    lanes: int
    memory: tuple[MemoryPoint, ...]
    hits: tuple[HitCount, ...]
    elapsed: float
    begun: float
    damaged: int

    @cached_property
    def worked(self) -> float:
        """Seconds of all compiles together, without waiting."""
        return sum(job.worked for job in self.jobs)

    @property
    def waited(self) -> float:
        """Seconds that all compiles together waited for memory."""
        return sum(job.waited for job in self.jobs)

    @property
    def peak(self) -> int:
        """Bytes that the tools took together at most: an upper bound."""
        return max((point.peak for point in self.memory), default=0)

    def share(self, job: CompileJob) -> float:
        """Return a job's share of all work, 0 to 1."""
        return job.worked / self.worked if self.worked else 0.0

    def slowest(self, number: int) -> tuple[CompileJob, ...]:
        """Return so many jobs that worked longest, the longest first."""
        return tuple(heapq.nlargest(number, self.jobs, key=lambda job: job.worked))


def make_timeline(events: Events) -> Timeline:
    """Put compiles and tools in order, in lanes, on a clock that starts at 0."""
    logged: list[Compile | ProgramRun] = [*events.compiles, *events.tools]
    begun = min((_span(item)[0] for item in logged), default=0.0)
    tools = [_tool_since(begun, tool) for tool in events.tools]
    compiles = [
        replace(compile_, start=compile_.start - begun, end=_span(compile_)[1] - begun)
        for compile_ in events.compiles
    ]
    jobs = _jobs(compiles, tools, events.hits())
    lanes = _stack(jobs, lambda job: (job.start, job.end))
    return Timeline(
        jobs=tuple(replace(job, lane=lane) for job, lane in zip(jobs, lanes, strict=True)),
        lanes=max(lanes, default=-1) + 1,
        memory=_memory(tools),
        hits=hit_counts(events),
        elapsed=max((job.end for job in jobs), default=0.0),
        begun=begun,
        damaged=events.damaged,
    )


def length(spans: Iterable[_Span]) -> float:
    """Return the seconds that these spans of time cover together."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _span(item: Compile | ProgramRun) -> _Span:
    start = min(item.called, item.asked, item.start) if isinstance(item, ProgramRun) else item.start
    return start, max(item.start, item.end)


def _tool_since(begun: float, tool: ProgramRun) -> ProgramRun:
    called, end = _span(tool)
    start = tool.start - begun
    requested = start if tool.start - tool.asked <= _AT_ONCE else tool.asked - begun
    called = requested if tool.asked - called <= _AT_ONCE else called - begun
    return replace(tool, called=called, asked=requested, start=start, end=end - begun)


def _jobs(
    compiles: Sequence[Compile], tools: Sequence[ProgramRun], hits: frozenset[str]
) -> list[CompileJob]:
    inside: dict[str, list[ProgramRun]] = defaultdict(list)
    for tool in tools:
        inside[tool.compile].append(tool)
    outside = [[tool] for tool in inside.pop("", [])]  # tools of no compile
    short = _shortener({compile_.file for compile_ in compiles} | {tool.file for tool in tools})
    jobs = [
        _job(compile_, inside.pop(compile_.id, []), _state(compile_, hits), short)
        for compile_ in compiles
    ]
    jobs += [_job(_compile_of(group), group, "cut off", short) for group in inside.values()]
    for group in outside:
        lone = _compile_of(group)
        jobs.append(_job(lone, group, _state(lone, hits), short))
    return sorted(jobs, key=lambda job: (job.start, job.end, job.file))


def _state(compile_: Compile, hits: frozenset[str]) -> State:
    if compile_.id in hits:
        return "hit"
    return "failed" if compile_.status else "done"


def _compile_of(tools: Sequence[ProgramRun]) -> Compile:
    """Return a compile that has no line of its own in the log, reconstructed from its tools."""
    first = tools[0]
    return Compile(
        id=first.compile,
        name=first.name,
        file=first.file,
        archs=tuple(sorted({tool.arch for tool in tools if tool.arch})),
        start=min(tool.called for tool in tools),
        end=max(tool.end for tool in tools),
        status=first.status,
        cached="",
    )


def _job(
    compile_: Compile, tools: Sequence[ProgramRun], state: State, short: Callable[[str], str]
) -> CompileJob:
    by_start = sorted(tools, key=lambda tool: (tool.asked, tool.end))
    rows = _stack(by_start, lambda tool: (tool.asked, tool.end))
    running = [(tool.start, tool.end) for tool in tools]
    waiting = [*running, *((tool.asked, tool.start) for tool in tools)]
    queueing = [*waiting, *((tool.called, tool.asked) for tool in tools)]
    return CompileJob(
        file=short(compile_.file) or f"({compile_.name} without a source)",
        name=compile_.name,
        language=compile_.language,
        archs=compile_.archs,
        state=state,
        start=min((compile_.start, *(tool.called for tool in tools))),
        end=max((compile_.end, *(tool.end for tool in tools))),
        waited=length(waiting) - length(running),
        queued=length(queueing) - length(waiting),
        peak=max((point.peak for point in _memory(tools)), default=0),
        parts=tuple(Phase(tool=tool, row=row) for tool, row in zip(by_start, rows, strict=True)),
        lane=0,
    )


def _stack(items: Iterable[_Item], span: Callable[[_Item], _Span]) -> list[int]:
    """Return the lowest free row for each item, without overlap; items are sorted by start."""
    rows: list[int] = []
    free: list[int] = []
    taken: list[tuple[float, int]] = []  # until when, which row
    for start, end in map(span, items):
        while taken and taken[0][0] <= start:
            heapq.heappush(free, heapq.heappop(taken)[1])
        row = heapq.heappop(free) if free else len(taken)
        heapq.heappush(taken, (end, row))
        rows.append(row)
    return rows


def _memory(tools: Iterable[ProgramRun]) -> tuple[MemoryPoint, ...]:
    changes: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for tool in tools:
        for time, sign in ((tool.start, 1), (tool.end, -1)):
            changes[time][0] += sign * tool.expected
            changes[time][1] += sign * tool.peak
    points: list[MemoryPoint] = []
    expected = peak = 0
    for time, (more_expected, more_peak) in sorted(changes.items()):
        expected, peak = expected + more_expected, peak + more_peak
        points.append(MemoryPoint(time=time, expected=expected, peak=peak))
    return tuple(points)


def _shortener(files: Iterable[str]) -> Callable[[str], str]:
    """Return a function that removes the folder that all sources share."""
    absolute = {file for file in files if file.startswith("/")}
    folders = {str(PurePosixPath(file).parent) for file in absolute}
    common = os.path.commonpath(folders) if folders else ""
    return lambda file: os.path.relpath(file, common) if file in absolute else file
