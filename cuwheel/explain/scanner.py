"""One pass over a log: where each pattern of the failure catalogue is first met."""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from cuwheel.explain.log_text import LINES_OF_MESSAGE, blocks, undecorated, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from cuwheel.explain.catalogue import FailureCause, Pattern, Signs
    from cuwheel.explain.log_text import Block


Hits = list[tuple[int, int, int]]  # of each: the text's index, its start and its end
_AHEAD = 1  # blocks that are searched while one is looked at
_KEPT = 3  # matches of a pattern; more say nothing new
_CHARACTERS = 2000  # of a line, that are read
_BEFORE = 2  # lines shown around an error that nobody knows
_AFTER = 6


@dataclass(frozen=True, kw_only=True)
class MatchedLine:
    """A line that matches a pattern.

    Attributes:
        pattern: the one.
        number: of the line, from 1.
        text: of the line, as the tool printed it.
        captures: the pattern's named groups.
    """

    pattern: Pattern
    number: int
    text: str
    captures: dict[str, str]


@dataclass(kw_only=True)
class Scan:
    """What was met.

    Attributes:
        causes: slug → matches behind the last success.
        overcome: slugs that were met before one.
        signs: names of those that were met.
        facts: name → value, where it was first met.
        failure: the first line behind it that speaks of a failure, if there is one.
        context: that line and those around it, by number.
        lines: how many there are.
    """

    causes: dict[str, list[MatchedLine]] = field(default_factory=dict)
    overcome: set[str] = field(default_factory=set)
    signs: set[str] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)
    failure: MatchedLine | None = None
    context: dict[int, str] = field(default_factory=dict)
    lines: int = 0


class Scanner:
    """A search for all patterns at once; made once for many logs."""

    def __init__(self, causes: Iterable[FailureCause], signs: Signs) -> None:
        self._owned = tuple(_owned(causes, signs))
        by_text: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(self._owned):
            for text in one.pattern.texts:
                by_text[text].append(index)
        self._indexes = tuple(tuple(of_text) for of_text in by_text.values())
        self._search = BytesAhoCorasick(
            [text.encode() for text in by_text],
            matchkind=MatchKind.Standard,
            implementation=Implementation.ContiguousNFA,  # as fast as a DFA, and made sooner
        )

    def scan(self, stream: IO[bytes]) -> Scan:
        """Read a log to its end.

        Raises:
            OSError: it can't be read.
        """
        run = _Run(self._owned, self._indexes)
        with ThreadPoolExecutor(1) as searcher:  # the search holds no lock of the interpreter's
            searching: deque[tuple[Block, bytes, Future[Hits]]] = deque()
            for block in unwrapped(blocks(stream)):
                lowered = block.text.lower()
                searching.append((block, lowered, searcher.submit(self._hits, lowered)))
                if len(searching) > _AHEAD:
                    run.look(*_searched(searching.popleft()))
            while searching:
                run.look(*_searched(searching.popleft()))
        return run.found

    def _hits(self, lowered: bytes) -> Hits:
        return self._search.find_matches_as_indexes(lowered, overlapping=True)


@dataclass(frozen=True, kw_only=True)
class _Owned:
    """A pattern and what it is for: which `_meet_…` of a run takes its matches, and for whom."""

    pattern: Pattern
    kind: str
    name: str = ""

    @functools.cached_property
    def others(self) -> tuple[tuple[bytes, ...], ...]:
        """The pattern's further texts."""
        return tuple(tuple(text.encode() for text in texts) for texts in self.pattern.others)


def _owned(causes: Iterable[FailureCause], signs: Signs) -> Iterator[_Owned]:
    for cause in causes:
        for one in cause.patterns:
            yield _Owned(pattern=one, kind="cause", name=cause.slug)
    for name, patterns in signs.named.items():
        for one in patterns:
            yield _Owned(pattern=one, kind="sign", name=name)
    for kind, patterns in (
        ("success", signs.successes),
        ("failure", signs.failures),
        ("fact", signs.facts),
    ):
        for one in patterns:
            yield _Owned(pattern=one, kind=kind)


class _Run:
    """One log being read."""

    def __init__(self, owned: tuple[_Owned, ...], indexes: tuple[tuple[int, ...], ...]) -> None:
        self.found = Scan()
        self._owned = owned
        self._of_text = indexes
        self._live = [list(of_text) for of_text in indexes]
        self._times = [0] * len(owned)
        self._before: list[str] = []  # the last lines of the block before

    def look(self, block: Block, lowered: bytes, hits: Hits) -> None:
        """Look closer at each line in which a text was found."""
        lines = _Lines(block, lowered, self._before)
        texts: set[int] = set()  # that the line was searched for
        tried: set[int] = set()
        for text, start, _ in hits:
            if lines.start <= start <= lines.end and text in texts:
                continue
            live = self._live[text]
            if not live or start >= block.fresh:
                continue
            if lines.go_to(start):
                texts.clear()
                tried.clear()
            texts.add(text)
            for index in tuple(live):
                if index not in tried:
                    tried.add(index)
                    self._try(index, lines)
        last = block.text[max(0, block.fresh - _BEFORE * _CHARACTERS) : block.fresh].split(b"\n")
        self._before = [_decoded(line) for line in last[-_BEFORE - 1 : -1]]
        self.found.lines = block.number + block.text.count(b"\n") - block.text.endswith(b"\n")

    def _try(self, index: int, lines: _Lines) -> None:
        owned = self._owned[index]
        if owned.kind == "failure" and self.found.failure:
            return
        if not _holds_each(owned.others, lines.near):
            return  # as for nearly all lines that hold a common word
        found = owned.pattern.regex.search(lines.window)
        if not found or found.start() > lines.length:
            return
        captures = {name: value for name, value in found.groupdict().items() if value}
        match = MatchedLine(
            pattern=owned.pattern, number=lines.number, text=lines.text, captures=captures
        )
        getattr(self, f"_meet_{owned.kind}")(index, match, lines)

    def _meet_cause(self, index: int, match: MatchedLine, _: _Lines) -> None:
        self.found.causes.setdefault(self._owned[index].name, []).append(match)
        self._times[index] += 1
        if self._times[index] == _KEPT:
            self._end(index)

    def _meet_sign(self, index: int, _: MatchedLine, __: _Lines) -> None:
        self.found.signs.add(self._owned[index].name)
        self._end(index)

    def _meet_fact(self, index: int, match: MatchedLine, _: _Lines) -> None:
        self.found.facts = match.captures | self.found.facts
        self._end(index)

    def _meet_failure(self, _: int, match: MatchedLine, lines: _Lines) -> None:
        self.found.failure = match
        self.found.context = lines.context()

    def _meet_success(self, _: int, __: MatchedLine, ___: _Lines) -> None:
        found = self.found
        if found.causes:
            lasting = {
                slug: kept
                for slug, matches in found.causes.items()
                if (kept := [one for one in matches if one.pattern.is_lasting])
            }
            found.overcome |= set(found.causes) - set(lasting)
            found.causes = lasting
            self._reset_causes()
        found.failure, found.context = None, {}

    def _end(self, index: int) -> None:
        for live in self._live:
            if index in live:
                live.remove(index)

    def _reset_causes(self) -> None:
        ended = {index for index, times in enumerate(self._times) if times == _KEPT}
        self._times = [0] * len(self._owned)
        for live, of_text in zip(self._live, self._of_text, strict=True):
            live.extend(index for index in of_text if index in ended)


def _searched(one: tuple[Block, bytes, Future[Hits]]) -> tuple[Block, bytes, Hits]:
    block, lowered, hits = one
    return block, lowered, hits.result()


def _holds_each(sets: tuple[tuple[bytes, ...], ...], line: bytes) -> bool:
    """Whether a text of each set stands in a line; in loops, as `any` takes three times as long."""
    for texts in sets:
        for text in texts:
            if text in line:
                break
        else:
            return False
    return True


class _Lines:
    """A walk over the lines of a block."""

    def __init__(self, block: Block, lowered: bytes, before: list[str]) -> None:
        self._block = block
        self._lowered = lowered
        self._before = before
        self.start, self.end = 0, -1
        self._counted = (0, block.number)  # a line's start and its number
        self._window = ""
        self._near = b""

    def go_to(self, offset: int) -> bool:
        """Step to the line of a byte; False: it is the one that was stepped to before."""
        if self.start <= offset <= self.end:
            return False
        text = self._block.text
        self.start = text.rfind(b"\n", 0, offset) + 1
        self.end = _end_of_line(text, offset)
        self._window = ""
        self._near = b""
        return True

    @property
    def number(self) -> int:
        """From 1, in the log."""
        start, number = self._counted
        if start > self.start:
            start, number = 0, self._block.number
        number += self._block.text.count(b"\n", start, self.start)
        self._counted = (self.start, number)
        return number

    @property
    def text(self) -> str:
        """The line, the last state of it where it is a progress bar."""
        line = _decoded(self._block.text[self.start : self.end])
        return line.rstrip("\r").rpartition("\r")[2].rstrip()

    @property
    def near(self) -> bytes:
        """The line and those that its message may go on in, as they are, in lower case."""
        if not self._near:
            end = self.end
            for _ in range(LINES_OF_MESSAGE - 1):
                end = _end_of_line(self._lowered, end + 1)
            self._near = self._lowered[self.start : end]
        return self._near

    @property
    def window(self) -> str:
        """The line and those behind it that its message may go on in, all undecorated."""
        if not self._window:
            text, start, lines = self._block.text, self.start, []
            for _ in range(LINES_OF_MESSAGE):
                end = _end_of_line(text, start)
                lines.append(undecorated(_decoded(text[start:end])))
                start = end + 1
                if start >= len(text):
                    break
            self._window = "\n".join(lines)
        return self._window

    @property
    def length(self) -> int:
        """Characters of the window's first line."""
        return len(self.window.partition("\n")[0])

    def context(self) -> dict[int, str]:
        """The line and those around it, by number; those behind it as far as the block goes."""
        text, start = self._block.text, self.start
        for _ in range(_BEFORE):
            start = text.rfind(b"\n", 0, max(0, start - 1)) + 1
        above = [_decoded(line) for line in text[start : self.start].split(b"\n")[:-1]]
        above = [*self._before, *above][-_BEFORE:]
        below = text[self.start : self.end + _AFTER * _CHARACTERS].split(b"\n")[: 1 + _AFTER]
        lines = [*above, *map(_decoded, below)]
        return {self.number - len(above) + index: line for index, line in enumerate(lines)}


def _end_of_line(text: bytes, offset: int) -> int:
    end = text.find(b"\n", offset)
    return len(text) if end < 0 else end


def _decoded(line: bytes) -> str:
    return line[:_CHARACTERS].decode("utf-8", "replace")
