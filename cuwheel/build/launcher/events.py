"""What a build's compiler launcher and memory gate wrote down: compiles, and the tools inside them.

The log is one file of JSON lines. Each process appends its line when it ends, so a build that was
killed leaves whole lines of what was finished, and perhaps a part of one more.
"""

from __future__ import annotations

import errno
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from cuwheel import limits
from cuwheel.system.regular_files import open_regular, read_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

SHARED = "shared"  # kind of an event: device code was taken from a build for another platform
DIRECT_MODE = "direct mode"  # stands for a cache, where the launcher had the object itself
EVENTS_LOG = "events.jsonl"  # its name in a build's folder of events, and among the logs

# What a line that is no event, or not a whole one, makes of its reader.
_UNREADABLE = (KeyError, TypeError, ValueError, OverflowError, RecursionError)

# By the source's name, as GCC's manual ("Options Controlling the Kind of Output") and nvcc's
# ("Supported Input File Suffixes") have it; `.C` and `.c` are two languages.
_LANGUAGES = {
    ".cu": "CUDA",
    ".c": "C",
    **dict.fromkeys((".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C"), "C++"),
    **dict.fromkeys((".s", ".S", ".sx"), "assembler"),
}


def is_source(word: str) -> bool:
    """Whether a word of a command names what a compiler reads."""
    return PurePosixPath(word).suffix in _LANGUAGES


@dataclass(frozen=True, kw_only=True)
class Compile:
    """One call of a compiler by the build system.

    Attributes:
        id: what its tools know it by; no two compiles of a log share one.
        name: of the compiler, such as `nvcc` or `g++`.
        file: the source; empty where none is compiled, as in a link.
        archs: compute capabilities that it compiles for, `90`.
        start: seconds since 1970, by the machine's clock, as all times here.
        end: seconds since 1970.
        status: exit status.
        cached: the cache that was asked, `ccache` or `sccache`, or `DIRECT_MODE`; empty: none.
        dropped: options that the launcher took out and that somebody may miss.
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

    @property
    def language(self) -> str:
        """What the source is written in; empty where there is no source."""
        known = _LANGUAGES.get(PurePosixPath(self.file).suffix)
        return known or ("other" if self.file else "")


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """One process that a compiler driver started and the memory gate watched.

    Attributes:
        compile: id of the compile that it is a part of; empty: none.
        name: `cudafe++`, `cicc`, `ptxas`, `gcc`, `g++`.
        file: the source.
        arch: compute capability that it compiles for; empty: for none, or for all.
        called: when its compile wanted it, seconds since 1970; until `asked` it waited for its
            turn among the build's jobs.
        asked: seconds since 1970; until `start` it waited for memory.
        start: seconds since 1970.
        end: seconds since 1970.
        peak: bytes, the most that it took.
        expected: bytes, what the gate thought that it would take.
        status: exit status.
        tries: how often it was started; more than once: it ran out of memory.
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


@dataclass(frozen=True, kw_only=True)
class Events:
    """All that one log holds, in the order in which it was written.

    Attributes:
        compiles: that have ended.
        tools: that have ended.
        shared: how many PTX files and cubins were taken from a build for another platform.
        damaged: how many lines can't be read; a kill in the middle of a write leaves one.
    """

    compiles: tuple[Compile, ...] = ()
    tools: tuple[ProgramRun, ...] = ()
    shared: int = 0
    damaged: int = 0

    def hits(self) -> frozenset[str]:
        """Ids of the compiles that a cache answered: one was asked, and no tool had to run."""
        worked = {tool.compile for tool in self.tools}
        return frozenset(one.id for one in self.compiles if _is_hit(one, worked))


class EventTail:
    """Follows an event log while it is written, and counts what a cache answered.

    Args:
        path: of the log; it needn't be there yet.

    Attributes:
        hits: how many compiles came out of a cache so far.
        hit_seconds: what these took together.
    """

    def __init__(self, path: Path) -> None:
        self.hits = 0
        self.hit_seconds = 0.0
        self._path = path
        self._read = 0
        self._worked: set[str] = set()

    def read(self) -> None:
        """Take what was written since the last time, as far as lines are whole."""
        try:
            with open_regular(self._path) as log:
                log.seek(self._read)
                whole = log.read(limits.EVENTS_AT_ONCE).rpartition(b"\n")[0]
        except OSError:
            return
        self._read += len(whole) + 1 if whole else 0
        for line in whole.split(b"\n"):
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = _event(line)
        except _UNREADABLE:
            return
        if isinstance(event, ProgramRun):
            self._worked.add(event.compile)
        elif isinstance(event, Compile) and _is_hit(event, self._worked):
            self.hits += 1
            self.hit_seconds += event.end - event.start


@dataclass(frozen=True, kw_only=True)
class HitCount:
    """How the caches served the sources of one language.

    Attributes:
        language: `CUDA`, `C++`, `C`, `assembler` or `other`.
        compiles: of that language.
        asked: for how many of them a cache was asked.
        hits: how many came out of it.
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
    shared = damaged = 0
    try:
        lines = read_regular(path, limit=limits.EVENTS).split(b"\n")
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EIO}:
            raise
        lines = []
    for line in filter(None, lines):
        try:
            event = _event(line)
        except _UNREADABLE:
            damaged += 1
            continue
        if isinstance(event, Compile):
            compiles.append(event)
        elif isinstance(event, ProgramRun):
            tools.append(event)
        shared += event is SHARED
    return Events(compiles=tuple(compiles), tools=tuple(tools), shared=shared, damaged=damaged)


def hit_counts(events: Events) -> tuple[HitCount, ...]:
    """Compiles and cache hits by language, the language with the most compiles first."""
    hits = events.hits()
    of_sources = [compile_ for compile_ in events.compiles if compile_.file]
    asked = _by_language(compile_ for compile_ in of_sources if compile_.cached)
    found = _by_language(compile_ for compile_ in of_sources if compile_.id in hits)
    return tuple(
        HitCount(language=language, compiles=number, asked=asked[language], hits=found[language])
        for language, number in _by_language(of_sources).most_common()
    )


def _is_hit(compile_: Compile, worked: Collection[str]) -> bool:
    """Whether a cache was asked and no program had to run, of those that have ended."""
    is_sound = bool(compile_.cached and compile_.file and not compile_.status)
    return is_sound and compile_.id not in worked


def _by_language(compiles: Iterable[Compile]) -> Counter[str]:
    return Counter(compile_.language for compile_ in compiles)


def _event(line: bytes) -> Compile | ProgramRun | str | None:
    """What a line records; None: something that later releases write."""
    content = json.loads(line)
    if content["kind"] == "compile":
        return _compile(content)
    if content["kind"] == "tool":
        return _tool(content)
    is_shared = content["kind"] == SHARED and content["made_for"] != content["taken_for"]
    return SHARED if is_shared else None


def _compile(content: dict[str, Any]) -> Compile:
    return Compile(
        id=_text(content["id"]),
        name=_text(content["name"]),
        file=_text(content["file"]),
        archs=tuple(_text(arch) for arch in content["archs"]),
        start=_seconds(content["start"]),
        end=_seconds(content["end"]),
        status=int(content["status"]),
        cached=_text(content["cached"]),
        dropped=tuple(_text(option) for option in content.get("dropped", ())),
    )


def _tool(content: dict[str, Any]) -> ProgramRun:
    return ProgramRun(
        compile=_text(content["compile"]),
        name=_text(content["name"]),
        file=_text(content["file"]),
        arch=_text(content["arch"]),
        called=_seconds(content.get("called", content["asked"])),  # older logs have none
        asked=_seconds(content["asked"]),
        start=_seconds(content["start"]),
        end=_seconds(content["end"]),
        peak=int(content["peak"]),
        expected=int(content["expected"]),
        status=int(content["status"]),
        tries=int(content["tries"]),
    )


def _seconds(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a time")
    return float(value)


def _text(value: Any) -> str:
    """Text that can be written; a byte of a file name that is no character becomes a `?`."""
    return str(value).encode("utf-8", "replace").decode()
