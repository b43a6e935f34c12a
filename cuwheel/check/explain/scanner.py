"""One pass over a log that finds the first matches of the failure catalogue's patterns."""

from __future__ import annotations

import copy
import functools
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import IO

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from cuwheel.check.explain.catalogue import FailureCause, Pattern, Signs, Weight
from cuwheel.check.explain.log_text import LINES_OF_MESSAGE, Block, blocks, in_english, undecorated
from cuwheel.check.explain.structure import Node, Structure

Hits = list[tuple[int, int, int]]  # each: the text's index, its start and its end
_AHEAD = 1  # blocks that are searched while one is examined
_KEPT = 3  # matches of a pattern in a part of the log; more add nothing
_MOST_CHAINS = 100
_MOST_TRANSLATED = 1_000  # lines
_KEPT_REMEDIES = 20
_FIRST = ("diagnostics", "wrappers")  # failures whose first line counts; of others the last
_OF_A_PART = ("isolated-build",)  # signs of what a part is, not of the machine
_CHARACTERS = 2000  # of a line that are read
_BEFORE = 2  # lines shown around an unknown error
_AFTER = 6
# The last line of a traceback whose class has another name than most: `pkg.NoSuchFile: text`.
_EXCEPTION = re.compile(r" *(?:\w+\.)*[A-Z]\w*(?<!Error)(?<!Exception)(?<!Exit)(?:: |$)")
# A commit's subject after its hash: it may name an error that it corrects.
_COMMIT = re.compile(r"(?:HEAD is now at |\* )?[0-9a-f]{7,40} \S")
# What a build prints as it goes on; its last line before the end is no error then.
_PROGRESS = re.compile(r"\W*(?:running|copying|creating|writing|adding|reading|building|\d+/\d+)\b")
_HEADING = re.compile(rb"\n(?:={3,}|_{3,}|-{3,}) ")
_TRACEBACK = 1 << 16  # bytes of one, or of a test's output, that are read


@dataclass(frozen=True, kw_only=True)
class MatchedLine:
    """A line that matches a pattern.

    Attributes:
        number: of the line, from 1.
    """

    pattern: Pattern
    number: int
    text: str
    captures: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class FailureLine:
    """A line that says that something failed.

    Attributes:
        kind: diagnostics, exceptions, messages or wrappers.
        context: the lines around it by number.
    """

    kind: str
    line: MatchedLine
    context: dict[int, str]


@dataclass(kw_only=True)
class Scan:
    """The matches in a log that no success overcame.

    Attributes:
        superseded: ranges of exceptions that another one of their chain followed.
        tracebacks: first lines of all exceptions, up to a limit.
        captured: ranges of what a test printed.
    """

    causes: dict[str, list[MatchedLine]] = field(default_factory=dict)
    overcome: set[str] = field(default_factory=set)
    signs: set[str] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)
    failures: list[FailureLine] = field(default_factory=list)
    remedies: list[MatchedLine] = field(default_factory=list)
    structure: Structure = field(default_factory=Structure)
    superseded: list[Node] = field(default_factory=list)
    tracebacks: list[int] = field(default_factory=list)
    captured: list[Node] = field(default_factory=list)
    lines: int = 0


class Scanner:
    """A search for all patterns at once, in many logs."""

    def __init__(self, causes: Iterable[FailureCause], signs: Signs) -> None:
        self._uses = tuple(_uses(causes, signs))
        by_text: dict[str, list[int]] = defaultdict(list)
        for index, use in enumerate(self._uses):
            for text in use.pattern.texts:
                by_text[text].append(index)
        self._indexes = tuple(map(tuple, by_text.values()))
        self._translations = signs.translations
        self._search = BytesAhoCorasick(
            [text.encode() for text in by_text],
            matchkind=MatchKind.Standard,
            implementation=Implementation.ContiguousNFA,  # as fast as a DFA, and built sooner
        )

    def scan(self, stream: IO[bytes]) -> Scan:
        """Read a log to its end.

        Raises:
            OSError: it can't be read.
        """
        search = functools.partial(self._search.find_matches_as_indexes, overlapping=True)
        run = _Run(self._uses, self._indexes, self._translations, search)
        with ThreadPoolExecutor(1) as searcher:  # the search releases the interpreter's lock
            searching: deque[tuple[Block, bytes, Future[Hits]]] = deque()
            for block in blocks(stream):
                lowered = block.text.lower()
                searching.append((block, lowered, searcher.submit(search, lowered)))
                if len(searching) > _AHEAD:
                    run.examine(*searching.popleft())
            while searching:
                run.examine(*searching.popleft())
        return run.result()


@dataclass(frozen=True, kw_only=True)
class _Use:
    """A pattern, its kind of match, and the cause or sign that it is for."""

    pattern: Pattern
    kind: str
    name: str = ""

    def may_match(self, line: bytes) -> bool:
        """Return True if a line, in lower case, has one of each set of the pattern's texts."""
        return all(any(text in line for text in texts) for texts in self._others)

    @functools.cached_property
    def _others(self) -> tuple[tuple[bytes, ...], ...]:
        return tuple(tuple(text.encode() for text in texts) for texts in self.pattern.others)


def _uses(causes: Iterable[FailureCause], signs: Signs) -> Iterator[_Use]:
    for kind, name, patterns in (
        *(("cause", cause.slug, cause.patterns) for cause in causes),
        *(("sign", name, patterns) for name, patterns in signs.named.items()),
        *(("failure", kind, patterns) for kind, patterns in signs.failures.items()),
        *((event, level, patterns) for (event, level), patterns in signs.structure.items()),
        ("chain", "", signs.chains),
        ("remedy", "", signs.remedies),
        ("fact", "", signs.facts),
    ):
        for pattern in patterns:
            yield _Use(pattern=pattern, kind=kind, name=name)
    foreign = tuple(phrase.encode().lower().decode() for phrase in signs.translations)
    yield _Use(pattern=Pattern(source="", texts=foreign), kind="foreign")


class _Run:
    """The reading of one log."""

    def __init__(
        self,
        uses: tuple[_Use, ...],
        indexes: tuple[tuple[int, ...], ...],
        translations: Mapping[str, str],
        search: Callable[[bytes], Hits],
    ) -> None:
        self.scan = Scan()
        self._uses = uses
        self._translations = translations
        self._search = search
        self._of_text = indexes
        self._live = [list(of_text) for of_text in indexes]
        self._times: Counter[int] = Counter()  # matches of a pattern
        self._before: list[str] = []  # the last lines of the block before
        self._signed: dict[str, int] = {}  # lines of signs that a success overcomes
        self._failures: dict[tuple[int, str], FailureLine] = {}  # by part of the log and kind
        self._last_attempt = 0  # the line that announces it

    def examine(self, block: Block, lowered: bytes, searched: Future[Hits]) -> None:
        """Match the patterns against each line with one of their texts."""
        lines = _Lines(block, lowered, self._before)
        texts: set[int] = set()  # that the line was searched for
        tried: set[int] = set()
        for text, start, _ in searched.result():
            is_same = lines.start <= start <= lines.end
            live = self._live[text]
            if (is_same and text in texts) or not live or start >= block.fresh:
                continue
            if not is_same:
                lines.go_to(start)
                texts.clear()
                tried.clear()
            texts.add(text)
            for index in tuple(live):
                if index not in tried:
                    tried.add(index)
                    self._try(index, lines)
        last = block.text[max(0, block.fresh - _BEFORE * _CHARACTERS) : block.fresh].split(b"\n")
        self._before = [_decoded(line) for line in last[-_BEFORE - 1 : -1]]
        self.scan.lines = block.number + block.text.count(b"\n") - block.text.endswith(b"\n")

    def result(self) -> Scan:
        """Return the scan after the last block."""
        self._forget_attempts()
        self.scan.failures = sorted(self._failures.values(), key=lambda one: one.line.number)
        return self.scan

    def _forget_attempts(self) -> None:
        """Drop the errors before a last attempt that succeeded or failed for a known cause."""
        numbers = [line.number for lines in self.scan.causes.values() for line in lines]
        numbers += [failure.line.number for failure in self._failures.values()]
        is_over = self.scan.lines > self._last_attempt >= max(numbers, default=0)
        has_cause = any(
            line.number > self._last_attempt
            for lines in self.scan.causes.values()
            for line in lines
            if line.pattern.weight > Weight.HINT
        )
        if self._last_attempt and (is_over or has_cause):
            self._overcome([Node(level=0, start=1, end=self._last_attempt)])
            self.scan.structure.forget(self._last_attempt)

    def _try(self, index: int, lines: _Lines) -> None:
        use = self._uses[index]
        if use.kind == "foreign":
            self._try_in_english(index, lines)
            return
        part = len(self.scan.structure.failed)
        if use.kind == "failure" and use.name in _FIRST and (part, use.name) in self._failures:
            return
        if not use.may_match(lines.near):
            return  # as for nearly all lines that hold a common word
        match = use.pattern.regex.search(lines.window)
        if not match or match.start() > lines.length or _COMMIT.match(lines.window):
            return
        captures = {name: value for name, value in match.groupdict().items() if value}
        line = MatchedLine(
            pattern=use.pattern, number=lines.number, text=lines.text, captures=captures
        )
        if use.kind == "failure":
            context = lines.context()
            if use.name == "endings":
                line = replace(line, number=line.number - 1, text=context.get(line.number - 1, ""))
            if not self.scan.structure.is_full and not self._is_no_error(line, use.name):
                failure = FailureLine(kind=use.name, line=line, context=context)
                self._failures[part, use.name] = failure
        elif use.kind in ("begin", "done", "failed", "failing", "again", "chain"):
            self._structure(use, line)
            self._look_ahead(use, line, lines)
        else:
            self._keep(index, line)

    def _is_no_error(self, line: MatchedLine, kind: str) -> bool:
        """Return True for a last line of output that tells of progress, or only that it failed."""
        if kind != "endings":
            return False
        wrappers = (use for use in self._uses if (use.kind, use.name) == ("failure", "wrappers"))
        return bool(_PROGRESS.match(line.text)) or any(
            use.pattern.regex.search(line.text) for use in wrappers
        )

    def _try_in_english(self, index: int, lines: _Lines) -> None:
        """Match the patterns against the translation of a line; its structure needs none."""
        self._times[index] += 1
        if self._times[index] == _MOST_TRANSLATED:
            self._end(index)
        english = lines.translated(self._translations)
        first = english.near.partition(b"\n")[0]
        texts = {text for text, _, _ in self._search(first)}
        for other in sorted({index for text in texts for index in self._live[text]}):
            if self._uses[other].kind in ("cause", "failure", "sign", "remedy", "fact"):
                self._try(other, english)

    def _look_ahead(self, use: _Use, line: MatchedLine, lines: _Lines) -> None:
        """Find the end of a traceback, or of what a test printed, that begins at a line."""
        if use.name == "captured" and len(self.scan.captured) < _MOST_CHAINS:
            end = line.number + lines.lines_to_heading()
            self.scan.captured.append(Node(level=0, start=line.number, end=end))
        elif use.name == "traceback" and (there := lines.end_of_traceback()):
            last = replace(line, number=there.number, text=there.text)
            failure = FailureLine(kind="exceptions", line=last, context=there.context())
            self._failures[len(self.scan.structure.failed), failure.kind] = failure

    def _keep(self, index: int, line: MatchedLine) -> None:
        """Keep a line of a cause, a remedy, a sign or a fact."""
        use, scan = self._uses[index], self.scan
        if use.kind == "remedy":
            scan.remedies = [*scan.remedies[-_KEPT_REMEDIES:], line]
        elif use.kind == "cause":
            scan.causes.setdefault(use.name, []).append(line)
            self._times[index] += 1
            if self._times[index] == _KEPT:
                self._end(index)
        else:
            if use.kind == "sign":
                scan.signs.add(use.name)
                if use.name in _OF_A_PART:
                    self._signed[use.name] = line.number
                    self._times[index] = _KEPT  # a sign of the next part too
            else:
                scan.facts = line.captures | scan.facts
            self._end(index)

    def _structure(self, use: _Use, line: MatchedLine) -> None:
        """Let a line begin or end a part of the log."""
        structure, names = self.scan.structure, line.captures.get("names", "")
        if use.name == "captured":
            return
        if use.name == "traceback":
            self.scan.tracebacks = [*self.scan.tracebacks[-_MOST_CHAINS:], line.number]
            return
        if use.kind == "chain":
            if len(self.scan.superseded) < _MOST_CHAINS:
                start = self.scan.tracebacks[-1] if self.scan.tracebacks else line.number
                self.scan.superseded.append(Node(level=0, start=start, end=line.number))
            return
        structure.settle(line.number)
        if use.kind == "begin":
            structure.begin(use.name, names, line.number)
        elif use.kind == "done":
            self._overcome(structure.succeed(use.name, names, line.number))
        elif not structure.is_full:
            is_running = use.kind == "failing"
            if use.kind == "again":
                self._last_attempt = line.number
            structure.fail(use.name, names, line.number, goes_on=is_running)
            self._revive()

    def _overcome(self, parts: list[Node]) -> None:
        """Drop the causes and failures in parts of the log."""
        scan = self.scan
        scan.signs -= {
            name for name, line in self._signed.items() if any(line in part for part in parts)
        }
        for slug, lines in list(scan.causes.items()):
            if remaining := [
                line
                for line in lines
                if line.pattern.is_lasting or not any(line.number in part for part in parts)
            ]:
                scan.causes[slug] = remaining
            else:
                del scan.causes[slug]
                scan.overcome.add(slug)
        self._failures = {
            key: failure
            for key, failure in self._failures.items()
            if not any(failure.line.number in part for part in parts)
        }
        self._revive()

    def _revive(self) -> None:
        """Search again for patterns that were met often enough."""
        ended = {index for index, times in self._times.items() if times >= _KEPT}
        self._times.clear()
        if ended:
            for live, of_text in zip(self._live, self._of_text, strict=True):
                live.extend(index for index in of_text if index in ended and index not in live)

    def _end(self, index: int) -> None:
        for live in self._live:
            if index in live:
                live.remove(index)


class _Lines:
    """A cursor over the lines of a block."""

    def __init__(self, block: Block, lowered: bytes, before: list[str]) -> None:
        self._block = block
        self._lowered = lowered
        self._before = before
        self.start, self.end = 0, -1
        self._counted = (0, block.number)  # a line's start and its number
        self._window = ""
        self._near = b""

    def go_to(self, offset: int) -> None:
        """Go to the line of a byte."""
        text = self._block.text
        self.start = text.rfind(b"\n", 0, offset) + 1
        self.end = _end_of_line(text, offset)
        self._window = ""
        self._near = b""

    @property
    def number(self) -> int:
        """The line's number in the log, from 1."""
        start, number = self._counted
        if start > self.start:
            start, number = 0, self._block.number
        number += self._block.text.count(b"\n", start, self.start)
        self._counted = (self.start, number)
        return number

    @property
    def text(self) -> str:
        """The line; of a progress bar, its last state."""
        line = _decoded(self._block.text[self.start : self.end])
        return line.rstrip("\r").rpartition("\r")[2].rstrip()

    @property
    def near(self) -> bytes:
        """The line and the next ones of its message, in lower case."""
        if not self._near:
            end = self.end
            for _ in range(LINES_OF_MESSAGE - 1):
                end = _end_of_line(self._lowered, end + 1)
            self._near = self._lowered[self.start : end]
        return self._near

    @property
    def window(self) -> str:
        """The line and the next ones of its message, undecorated."""
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

    def translated(self, translations: Mapping[str, str]) -> _Lines:
        """Return a cursor at the line whose window is in English."""
        there = copy.copy(self)
        there._window = in_english(self.window, translations)  # noqa: SLF001 - its own class
        there._near = there._window.encode().lower()  # noqa: SLF001
        return there

    @property
    def length(self) -> int:
        """Characters of the window's first line."""
        return len(self.window.partition("\n")[0])

    def end_of_traceback(self) -> _Lines | None:
        """Return a cursor at an exception that no pattern names: the first line with the indent."""
        indent = self._lowered.find(b"traceback", self.start) - self.start
        limit = self.end + _TRACEBACK
        match = _line_from(indent).search(self._block.text, self.end, limit)
        if not match:
            return None
        there = copy.copy(self)
        there.go_to(match.end())
        return there if _EXCEPTION.match(undecorated(there.text)) else None

    def lines_to_heading(self) -> int:
        """Return how many lines follow up to pytest's next heading, or to the limit."""
        text, limit = self._block.text, self.end + _TRACEBACK
        match = _HEADING.search(text, self.end, limit)
        return text.count(b"\n", self.end, match.start() if match else limit)

    def context(self) -> dict[int, str]:
        """Return the line and those around it by number, as far as the block goes."""
        text, start = self._block.text, self.start
        for _ in range(_BEFORE):
            start = text.rfind(b"\n", 0, max(0, start - 1)) + 1
        above = [_decoded(line) for line in text[start : self.start].split(b"\n")[:-1]]
        above = [*self._before, *above][-_BEFORE:]
        below = text[self.start : self.end + _AFTER * _CHARACTERS].split(b"\n")[: 1 + _AFTER]
        lines = [*above, *map(_decoded, below)]
        return {self.number - len(above) + index: line for index, line in enumerate(lines)}


@functools.lru_cache
def _line_from(indent: int) -> re.Pattern[bytes]:
    """Return a pattern of a line whose text begins at a column."""
    return re.compile(rb"\n[^\n]{%d}(?=\S)" % indent)


def _end_of_line(text: bytes, offset: int) -> int:
    end = text.find(b"\n", offset)
    return len(text) if end < 0 else end


def _decoded(line: bytes) -> str:
    return line[:_CHARACTERS].decode("utf-8", "replace")
