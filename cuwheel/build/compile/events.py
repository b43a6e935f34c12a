"""The event log of a build's compiler launcher and memory gate: compiles and their programs.

The log is one file of JSON lines. Each process appends its line when it ends, so a build that was
killed leaves whole lines of what was finished, and perhaps a part of one more.
"""

from __future__ import annotations

import errno
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from cuwheel.base import limits
from cuwheel.base.system.regular_files import open_regular, read_regular

SHARED = "shared"  # kind of an event: device code was taken from a build for another platform
_REUSED = "reused"  # likewise, from an earlier compile for the same one
DIRECT_MODE = "direct mode"  # in place of a cache's name, where the launcher had the object itself
EVENTS_LOG = "events.jsonl"  # its name in a build's folder of events, and among the logs

_DAMAGED = "damaged"

# By the source's name, as GCC's manual ("Options Controlling the Kind of Output") and nvcc's
# ("Supported Input File Suffixes") have it; `.C` and `.c` are two languages.
_LANGUAGES = {
    ".cu": "CUDA",
    ".c": "C",
    **dict.fromkeys((".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C"), "C++"),
    **dict.fromkeys((".s", ".S", ".sx"), "assembler"),
}


def is_source(word: str) -> bool:
    """Return True if a word of a command names a compiler's input."""
    return PurePosixPath(word).suffix in _LANGUAGES


@dataclass(frozen=True, kw_only=True)
class Compile:
    """One call of a compiler by the build system.

    Attributes:
        id: by which its tools know it; no two compiles of a log share one.
        name: of the compiler, such as `nvcc` or `g++`.
        file: the source; empty where none is compiled, as in a link.
        archs: compute capabilities that it compiles for, `90`.
        start: seconds since 1970, by the machine's clock, as all times here.
        end: seconds since 1970.
        cached: the cache that it went through, `ccache` or `sccache`, or `DIRECT_MODE`; empty:
            none.
        share: the archs for which device code was made, where no object was; empty: it was.
    """

    id: str
    name: str
    file: str
    archs: tuple[str, ...]
    start: float
    end: float
    status: int
    cached: str
    dropped: tuple[str, ...] = ()
    share: tuple[str, ...] = ()

    @property
    def language(self) -> str:
        """Language of the source; empty where there is no source."""
        known = _LANGUAGES.get(PurePosixPath(self.file).suffix)
        return known or ("other" if self.file else "")


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """One process that a compiler driver started under the memory gate.

    Attributes:
        compile: id of the compile that it is a part of; empty: none.
        name: `cudafe++`, `cicc`, `ptxas`, `gcc`, `g++`.
        arch: compute capability that it compiles for; empty: for none, or for all.
        called: seconds since 1970; until `asked` it waited for its turn among the build's jobs.
        asked: seconds since 1970; until `start` it waited for memory.
        start: seconds since 1970.
        end: seconds since 1970.
        peak: bytes, the most that it took.
        expected: bytes that the gate reserved for it.
        tries: number of starts; more than one: it ran out of memory.
        cpu: seconds of processor time of the last start; 0 in older logs.
    """

    compile: str
    name: str
    file: str
    arch: str
    called: float
    asked: float
    start: float
    end: float
    peak: int
    expected: int
    status: int
    tries: int
    cpu: float = 0.0


@dataclass(frozen=True, kw_only=True)
class InputsNoted:
    """The inputs of a compile that ran, compared with the nearest kept ones of its source.

    Attributes:
        known: False if the source was never compiled before.
        differences: kind, change and name of each, in one text; the first of `count`.
    """

    known: bool
    differences: tuple[str, ...]
    count: int


@dataclass(frozen=True, kw_only=True)
class Events:
    """The events of one log, in the order in which they were written.

    Attributes:
        inputs: by the id of the compile.
        shared: how many PTX files and cubins were taken from a build for another platform.
        reused: how many from an earlier compile for the same one.
        damaged: how many lines can't be read; a kill in the middle of a write leaves one.
    """

    compiles: tuple[Compile, ...] = ()
    tools: tuple[ProgramRun, ...] = ()
    inputs: Mapping[str, InputsNoted] = field(default_factory=dict)
    shared: int = 0
    reused: int = 0
    damaged: int = 0

    def hits(self) -> frozenset[str]:
        """Return the ids of the compiles through a cache for which no tool had to run."""
        worked = {tool.compile for tool in self.tools}
        return frozenset(each.id for each in self.compiles if _is_hit(each, worked))

    def device_runs(self) -> frozenset[tuple[str, str]]:
        """Return id and arch of each compile for which a program had to make device code."""
        return frozenset((tool.compile, tool.arch) for tool in self.tools if tool.arch)


@dataclass(frozen=True, kw_only=True)
class HitCount:
    """The cache hits among the sources of one language.

    Attributes:
        language: `CUDA`, `C++`, `C`, `assembler` or `other`.
    """

    language: str
    compiles: int
    asked: int
    hits: int


def read_events(path: Path) -> Events:
    """Read an event log.

    Args:
        path: of the log. One that isn't there is a build that compiled nothing; so is what is no
            file, or too large to be one.

    Raises:
        OSError: it is there and can't be read.
    """
    compiles: list[Compile] = []
    tools: list[ProgramRun] = []
    inputs: dict[str, InputsNoted] = {}
    counts: Counter[str] = Counter()
    try:
        lines = read_regular(path, limit=limits.EVENTS).split(b"\n")
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EIO}:
            raise
        lines = []
    for event in map(_event, filter(None, lines)):
        if isinstance(event, Compile):
            compiles.append(event)
        elif isinstance(event, ProgramRun):
            tools.append(event)
        elif isinstance(event, tuple):
            inputs[event[0]] = event[1]
        elif event:
            counts[event] += 1
    return Events(compiles=tuple(compiles), tools=tuple(tools), inputs=inputs, **counts)


def count_compiles(path: Path, offset: int) -> tuple[int, int]:
    """Return the number of sources in a log that is written to, and where it was read up to.

    Args:
        offset: where to start: 0, or the result of the call before.
    """
    try:
        with open_regular(path) as log:
            log.seek(offset)
            whole, newline, _ = log.read(limits.EVENTS).rpartition(b"\n")
    except OSError:
        return 0, offset  # nothing was compiled yet
    events = map(_event, whole.split(b"\n"))
    count = sum(isinstance(event, Compile) and bool(event.file) for event in events)
    return count, offset + len(whole) + len(newline)


def hit_counts(events: Events) -> tuple[HitCount, ...]:
    """Return compiles and cache hits by language, the one with the most compiles first."""
    hits = events.hits()
    compiles = [compile_ for compile_ in events.compiles if compile_.file]
    cached = _by_language(compile_ for compile_ in compiles if compile_.cached)
    hit = _by_language(compile_ for compile_ in compiles if compile_.id in hits)
    return tuple(
        HitCount(language=language, compiles=number, asked=cached[language], hits=hit[language])
        for language, number in _by_language(compiles).most_common()
    )


def _is_hit(compile_: Compile, worked: Collection[str]) -> bool:
    """Return True if an ended compile succeeded through a cache and no program had to run."""
    is_sound = bool(compile_.cached and compile_.file and not compile_.status)
    return is_sound and compile_.id not in worked


def _by_language(compiles: Iterable[Compile]) -> Counter[str]:
    return Counter(compile_.language for compile_ in compiles)


def _seconds(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a time")
    return float(value)


def _text(value: Any) -> str:
    """Return text that can be written; a byte of a file name that is no character becomes a `?`."""
    return str(value).encode("utf-8", "replace").decode()


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, value))


# By field, how it is read.
_COMPILE: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("id", "name", "file", "cached"), _text),
    **dict.fromkeys(("archs", "dropped", "share"), _texts),
    **dict.fromkeys(("start", "end"), _seconds),
    "status": int,
}
_TOOL: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("compile", "name", "file", "arch"), _text),
    **dict.fromkeys(("called", "asked", "start", "end", "cpu"), _seconds),
    **dict.fromkeys(("peak", "expected", "status", "tries"), int),
}


def _event(line: bytes) -> Compile | ProgramRun | tuple[str, InputsNoted] | str:
    """Parse a line; `SHARED`, `_REUSED`, `_DAMAGED`; nothing for an event of another release."""
    try:
        content = {"dropped": (), "share": (), **json.loads(line)}
        kind = content["kind"]
        if kind == "compile":
            return Compile(**{name: read(content[name]) for name, read in _COMPILE.items()})
        if kind == "tool":
            content.setdefault("called", content["asked"])  # older logs have none
            content.setdefault("cpu", 0.0)  # likewise
            return ProgramRun(**{name: read(content[name]) for name, read in _TOOL.items()})
        if kind == "inputs":
            known, count = bool(content["known"]), int(content["count"])
            noted = InputsNoted(
                known=known, differences=_texts(content["differences"]), count=count
            )
            return _text(content["compile"]), noted
        if kind == SHARED:
            return SHARED if content["made_for"] != content["taken_for"] else _REUSED
    # It is no event, or not a whole one.
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return _DAMAGED
    return ""
