"""Advice on how to build faster, derived from a build's timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from cuwheel.base.system.quantities import first_of, plural, show_share, show_size, show_time
from cuwheel.lab.profile.timeline import CompileJob, Timeline, length

# Shares from which on a line is printed.
_LONG = 0.5  # one file, of the whole build
_MOST = 0.5  # one tool, of its file
_TAIL = 0.1  # one file running alone at the end, of the whole build
_WAITED = 0.05  # waiting for memory, of waiting and working
_IDLE = 0.2  # no compile running, of the whole build
_OVERESTIMATE = 2  # memory expected for memory taken
_NAMED = 3  # files that a line names


def advise(timeline: Timeline) -> tuple[str, ...]:
    """Return a sentence for each notable fact, the most pressing first."""
    if not timeline.jobs:
        return ("nothing was compiled", *_uncertainties(timeline))
    return (
        *_ended_badly(timeline),
        *_killed(timeline),
        *_longest(timeline),
        *_tail(timeline),
        *_memory(timeline),
        *_idle(timeline),
        *_cache(timeline),
        *_uncertainties(timeline),
    )


def _ended_badly(timeline: Timeline) -> Iterator[str]:
    for state, verb in (("failed", "failed"), ("cut off", "didn't finish")):
        files = [job.file for job in timeline.jobs if job.state == state]
        if files:
            yield f"{plural(len(files), 'compile')} {verb}: {first_of(files, _NAMED)}"


def _killed(timeline: Timeline) -> Iterator[str]:
    again = [(job, part) for job in timeline.jobs for part in job.parts if part.tool.tries > 1]
    for job, part in again[:_NAMED]:
        tool = part.tool
        yield (
            f"{part.name} of {job.file} ran out of memory and was started "
            f"{tool.tries} times; it took {show_size(tool.peak)}"
        )
    if len(again) > _NAMED:
        yield f"{len(again) - _NAMED} more tools ran out of memory and were started again"


def _longest(timeline: Timeline) -> Iterator[str]:
    job = timeline.slowest(1)[0]
    part = job.worked / timeline.elapsed if timeline.elapsed else 0
    is_long = len(timeline.jobs) > 1 and part >= _LONG
    if is_long:
        yield (
            f"{job.file} takes {show_time(job.worked)}, {show_share(part)} of the build's "
            f"{show_time(timeline.elapsed)}: more jobs can't make the build shorter than that"
        )
    name, seconds = _largest_tool(job)
    if len(job.parts) > 1 and job.worked and seconds / job.worked >= _MOST:
        whole = "it" if is_long else f"{job.file}, the slowest file"
        yield f"{name} is {show_share(seconds / job.worked)} of {whole}: {show_time(seconds)}"


def _largest_tool(job: CompileJob) -> tuple[str, float]:
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for part in job.parts:
        spans[part.name].append((part.tool.start, part.tool.end))
    seconds = {name: length(of_tool) for name, of_tool in spans.items()}
    return max(seconds.items(), key=lambda item: item[1], default=("", 0.0))


def _tail(timeline: Timeline) -> Iterator[str]:
    *others, last = sorted(timeline.jobs, key=lambda job: job.end)
    if not others or timeline.lanes == 1:
        return
    alone = last.end - max(others[-1].end, last.start)
    if alone >= _TAIL * timeline.elapsed:
        yield (
            f"for the last {show_time(alone)} only {last.file} ran: started earlier, it would "
            "have run in parallel with others"
        )


def _memory(timeline: Timeline) -> Iterator[str]:
    waited = timeline.waited
    if waited < _WAITED * (waited + timeline.worked) or not waited:
        return
    longest = max(timeline.jobs, key=lambda job: job.waited)
    yield (
        f"compiles waited {show_time(waited)} for memory in total, {longest.file} the longest, "
        f"{show_time(longest.waited)}: more memory would help, more jobs won't"
    )
    tools = [part.tool for job in timeline.jobs for part in job.parts]
    expected, peak = sum(tool.expected for tool in tools), sum(tool.peak for tool in tools)
    if peak and expected >= _OVERESTIMATE * peak:
        yield (
            f"{expected / peak:.1f} times the memory actually used was expected: the usage is "
            "now known, and the next build waits less"
        )


def _idle(timeline: Timeline) -> Iterator[str]:
    idle = timeline.elapsed - length((job.start, job.end) for job in timeline.jobs)
    if idle >= _IDLE * timeline.elapsed > 0:
        yield (
            f"for {show_time(idle)}, {show_share(idle / timeline.elapsed)} of the build, no "
            "compile ran: the build configured, linked, or did something else"
        )


def _cache(timeline: Timeline) -> Iterator[str]:
    compiles = sum(count.compiles for count in timeline.hits)
    requests = sum(count.asked for count in timeline.hits)
    hits = sum(count.hits for count in timeline.hits)
    if not requests:
        yield f"no cache was used for {plural(compiles, 'compile')}"
    elif not hits:
        yield f"the cache had none of {plural(requests, 'compile')}"
    elif hits == requests:
        yield f"the cache had all of {plural(requests, 'compile')}"
    else:
        misses = " ".join(
            f"{count.language}: {count.hits} of {count.asked}."
            for count in timeline.hits
            if count.asked
        )
        yield f"the cache had {hits} of {plural(requests, 'compile')}. {misses}".rstrip(".")


def _uncertainties(timeline: Timeline) -> Iterator[str]:
    if timeline.damaged:
        yield (
            f"{plural(timeline.damaged, 'line')} of the event log can't be read: "
            "the build was killed, or the disk was full"
        )
