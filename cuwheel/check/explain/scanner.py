"""One pass over a log that finds the first matches of the failure catalogue's patterns."""

from __future__ import annotations

import bisect
import functools
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO

from cuwheel.check.explain.catalogue import FailureCause, Pattern, Signs, Weight
from cuwheel.check.explain.effort import (
    ADDRESS,
    HIT,
    KEPT_CAUSE,
    LATE,
    LINE,
    STRUCTURE,
    TRIED,
    Effort,
)
from cuwheel.check.explain.lines import Lines, last_lines
from cuwheel.check.explain.log_text import Block, blocks
from cuwheel.check.explain.matches import Matches, Message, Patterns, Spans, Use
from cuwheel.check.explain.search import Hits, Part
from cuwheel.check.explain.structure import MOST_FAILED, Node, Structure

_KEPT = 3  # matches of a pattern in a part of the log; more add nothing
_MOST_CHAINS = 100
_MOST_TRANSLATED = 1_000  # lines
_KEPT_REMEDIES = 20
_LAST_PARTS = 16  # at the end; of long lines a part is the start of one
_MOST_UNREAD = 50  # lines that may report a failure, one in place of the other
_FIRST = ("diagnostics", "wrappers")  # failures whose first line counts; of others the last
_LAST = ("exceptions", "messages")
_OF_A_PART = ("isolated-build",)  # signs of what a part is, not of the machine
_STRUCTURE = frozenset({"begin", "done", "failed", "failing", "again", "chain"})
# What a build prints as it goes on; its last line before the end is no error then.
_PROGRESS = re.compile(r"\W*(?:running|copying|creating|writing|adding|reading|building|\d+/\d+)\b")


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
    """A line that reports a failure.

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
        unread: lines that were only counted.
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
    unread: int = 0


class Scanner:
    """A search for all patterns at once, in many logs."""

    def __init__(self, causes: Iterable[FailureCause], signs: Signs) -> None:
        self._patterns = Patterns(causes, signs)

    def scan(self, stream: IO[bytes]) -> Scan:
        """Read a log to its end.

        Raises:
            OSError: it can't be read.
        """
        effort = Effort()
        run = _Run(self._patterns, effort)
        with ThreadPoolExecutor(1) as searcher:  # the search releases the interpreter's lock
            for block in blocks(stream):
                run.read(block, searcher)
            run.examine_last(searcher)
        return run.result()


class _UnreadLine:
    """A line of a failure or of advice, which is read only if no later one replaces it.

    Attributes:
        index: of its pattern.
        lines: a cursor that was there, and has moved since.
        spans: the pattern's groups; None: not known yet.
        window: the lines in English, if they were translated.
        before: the failure that stays if this line is none.
        message: what its spans are found in, if they aren't known yet.
        depth: unread lines before it.
    """

    __slots__ = (
        "before",
        "depth",
        "index",
        "lines",
        "message",
        "number",
        "spans",
        "start",
        "window",
    )

    def __init__(
        self,
        index: int,
        lines: Lines,
        spans: Spans | None,
        before: FailureLine | _UnreadLine | None,
    ) -> None:
        self.index = index
        self.lines = lines
        self.number = lines.number
        self.start = lines.start
        self.spans = spans
        self.window = lines.window if lines.is_translated else ""
        self.before = before
        self.depth: int = before.depth + 1 if isinstance(before, _UnreadLine) else 0
        self.message: Message | None = None


class _OpenBlock:
    """A block of which parts are examined.

    Attributes:
        before: the last lines of the block before.
    """

    def __init__(self, block: Block, before: list[str]) -> None:
        self.block = block
        self.before = before

    @functools.cached_property
    def lowered(self) -> bytes:
        """Its text in lower case."""
        return self.block.text.lower()

    def lines_between(self, start: int, end: int) -> int:
        """Return how many lines a part has; it may end within a line."""
        text = self.block.text
        return text.count(b"\n", start, end) + (not text.endswith(b"\n", start, end))

    @functools.cached_property
    def lines(self) -> Lines:
        """A cursor over its lines."""
        return Lines(self.block, self.lowered, self.before)


class _Run:
    """The reading of one log."""

    def __init__(self, patterns: Patterns, effort: Effort) -> None:
        self.scan = Scan()
        self._uses = patterns.uses
        self._search = patterns.search
        self._matches = Matches(patterns, effort)
        self._effort = effort
        self._of_text = patterns.of_text
        self._live = list(patterns.of_text)
        self._skipped: deque[tuple[_OpenBlock, Part]] = deque()
        self._skipped_bytes = 0
        self._ended: set[int] = set()  # patterns that were met often enough
        self._times: Counter[int] = Counter()  # matches of a pattern
        self._before: list[str] = []  # the last lines of the block before
        self._signed: dict[str, int] = {}  # lines of signs that a success overcomes
        # By part of the log and kind.
        self._failures: dict[tuple[int, str], FailureLine | _UnreadLine] = {}
        self._last_attempt = 0  # the line that announces it
        self._remedies: deque[MatchedLine | _UnreadLine] = deque(maxlen=_KEPT_REMEDIES + 1)
        self._tracebacks: deque[int] = deque(maxlen=_MOST_CHAINS + 1)
        self._newest = 0  # at least the number of any failure's line
        self._has_unread = False

    @functools.cached_property
    def _texts_of(self) -> dict[int, list[int]]:
        """The texts of each pattern."""
        texts_of: dict[int, list[int]] = defaultdict(list)
        for text, indexes in enumerate(self._of_text):
            for index in indexes:
                texts_of[index].append(text)
        return texts_of

    def read(self, block: Block, searcher: Executor) -> None:
        """Examine the parts of a block that the limit on the work allows, and count its lines."""
        there = _OpenBlock(block, self._before)
        self._examine(there, self._allowed(there), searcher)
        self._before = last_lines(block)
        self.scan.lines = block.number + block.text.count(b"\n") - block.text.endswith(b"\n")

    def examine_last(self, searcher: Executor) -> None:
        """Examine the parts at the log's end, which decides most, if they were skipped."""
        while self._skipped:
            there = self._skipped[0][0]
            chosen = [part for block, part in self._skipped if block is there]
            for _ in chosen:
                self._skipped.popleft()
            self._examine(there, chosen, searcher)

    def _allowed(self, there: _OpenBlock) -> Iterator[Part]:
        """Yield the parts that are examined; the last of the others are kept."""
        for part in self._search.parts(there.block.text):
            start, end, _ = part
            if start >= there.block.fresh:
                return  # the next block has it too
            if self._effort.allows(end - start):
                self._forget_skipped(0)
                yield part
            else:
                self._skipped.append((there, part))
                self._skipped_bytes += end - start
                self._forget_skipped(self._effort.end)

    def _forget_skipped(self, kept: int) -> None:
        """Drop skipped parts, the first ones first, and count their lines."""
        while self._skipped:
            there, (start, end, _) = self._skipped[0]
            is_short = self._skipped_bytes - (end - start) < kept
            is_few = len(self._skipped) <= _LAST_PARTS
            if (is_short and is_few) or (kept and len(self._skipped) == 1):
                return
            self._skipped.popleft()
            self._skipped_bytes -= end - start
            self.scan.unread += there.lines_between(start, min(end, there.block.fresh))

    def _examine(self, there: _OpenBlock, chosen: Iterable[Part], searcher: Executor) -> None:
        """Match the patterns against each line of parts with one of their texts."""
        is_read = False
        both = ((there.lowered, part) for part in chosen)
        for start, hits in self._search.in_parts(both, searcher):
            if not is_read:
                self._effort.spent += there.lowered.count(b"0x") * ADDRESS
                is_read = True
            self._examine_part(there.lines, hits, start, there.block.fresh - start)
        if is_read:
            self._read_late_failures()
            self._read_late_remedies()

    def _examine_part(self, lines: Lines, hits: Hits, base: int, fresh: int) -> None:
        """Match the patterns in a part of a block.

        Args:
            base: start of the part; hits are relative to it.
            fresh: bytes from there that no later block repeats.
        """
        self._effort.spent += len(hits) * HIT
        texts: list[int] = []  # in the line
        end, live = -1, self._live
        for text, start, _ in hits:
            if start > end:
                if texts:
                    self._examine_line(lines, texts)
                    texts = []
                if start >= fresh:
                    break
                if not live[text]:
                    continue
                lines.go_to(base + start)
                end = lines.end - base
            texts.append(text)
        if texts:
            self._examine_line(lines, texts)

    def result(self) -> Scan:
        """Return the scan after the last block."""
        self._forget_attempts()
        failures = [one for one in self._failures.values() if isinstance(one, FailureLine)]
        self.scan.failures = sorted(failures, key=lambda one: one.line.number)
        self.scan.remedies = [one for one in self._remedies if isinstance(one, MatchedLine)]
        self.scan.tracebacks = list(self._tracebacks)
        return self.scan

    def _forget_attempts(self) -> None:
        """Drop the errors before a last attempt that succeeded or failed for a known cause."""
        numbers = [line.number for lines in self.scan.causes.values() for line in lines]
        numbers += map(_number, self._failures.values())
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

    def _examine_line(self, lines: Lines, texts: list[int]) -> None:
        """Match the patterns of a line's texts."""
        self._effort.spent += LINE
        message = self._matches.message(lines, tuple(texts))
        if not message.texts:
            return
        spans, live = message.spans, self._live
        if len(message.texts) == 1:
            self._effort.spent += len(live[message.texts[0]]) * TRIED
            for index in live[message.texts[0]]:
                if spans.get(index, ()) is not None:
                    self._try(index, lines, message)
            return
        met: set[int] = set()
        tried: set[int] = set()
        for text in message.texts:
            alive = live[text]
            if text in met or not alive:
                continue
            met.add(text)
            self._effort.spent += len(alive) * TRIED
            for index in alive:
                if index not in tried:
                    tried.add(index)
                    if spans.get(index, ()) is not None:
                        self._try(index, lines, message)

    def _try(self, index: int, lines: Lines, message: Message) -> None:
        use = self._uses[index]
        if use.kind == "foreign":
            self._try_in_english(index, lines, message)
            return
        if use.kind == "failure":
            part = len(self.scan.structure.failed)
            if part >= MOST_FAILED or (use.name in _FIRST and (part, use.name) in self._failures):
                return
            if use.name in _LAST and not lines.is_translated:
                self._fail_late(index, lines, message)
                return
        spans = self._matches.spans(index, message, lines)
        if spans is None:
            return
        if use.kind == "failure":
            self._fail(index, lines, spans)
            return
        if use.kind == "remedy":
            self._remedies.append(_UnreadLine(index, lines, spans, None))
            return
        captures = {name: lines.window[start:end] for name, start, end in spans}
        if use.kind in _STRUCTURE:
            self._structure(use, lines.number, captures)
            self._look_ahead(index, lines, spans)
        else:
            self._keep(index, lines, captures)

    def _fail(self, index: int, lines: Lines, spans: Spans) -> None:
        """Keep a line that reports a failure."""
        use = self._uses[index]
        late = _UnreadLine(index, lines, spans, None)
        failure: FailureLine | _UnreadLine = late
        if use.name == "endings":
            if self._is_no_ending(lines.text_above):
                return
            failure = _failure(use, late, lines)
        self._failures[len(self.scan.structure.failed), use.name] = failure
        self._newest = max(self._newest, lines.number)

    def _fail_late(self, index: int, lines: Lines, message: Message) -> None:
        """Keep a line that may report a failure; an earlier one stays if it doesn't."""
        self._effort.spent += LATE
        key = (len(self.scan.structure.failed), self._uses[index].name)
        before = self._failures.get(key)
        spans = message.spans.get(index)
        if spans is None and before is None:  # results are in the order of first failures
            spans = self._matches.spans(index, message, lines)
            if spans is None:
                return
        before = None if spans is not None else before
        if isinstance(before, _UnreadLine) and before.depth >= _MOST_UNREAD:
            before = self._read(before)
        late = _UnreadLine(index, lines, spans, before)
        late.message = message
        self._failures[key] = late
        self._has_unread = True

    @functools.cached_property
    def _is_no_ending(self) -> Callable[[str], bool]:
        """Return True for a last line of output that tells of progress, or only that it failed."""
        wrappers = [u.pattern for u in self._uses if (u.kind, u.name) == ("failure", "wrappers")]
        return functools.lru_cache(
            lambda text: bool(_PROGRESS.match(text)) or any(w.regex.search(text) for w in wrappers)
        )

    def _try_in_english(self, index: int, lines: Lines, message: Message) -> None:
        """Match the patterns against the translation of a line; its structure needs none."""
        self._times[index] += 1
        if self._times[index] == _MOST_TRANSLATED:
            self._end(index)
        english, there = self._matches.english(message, lines)
        for other in [other for other in english.texts if other not in self._ended]:
            self._try(other, there, english)

    def _look_ahead(self, index: int, lines: Lines, spans: Spans) -> None:
        """Find the end of a traceback, or of what a test printed, that begins at a line."""
        name, number = self._uses[index].name, lines.number
        if name == "captured" and len(self.scan.captured) < _MOST_CHAINS:
            end = number + lines.lines_to_heading()
            self.scan.captured.append(Node(level=0, start=number, end=end))
        elif name == "traceback":
            key = (len(self.scan.structure.failed), "exceptions")
            before = self._failures.get(key)
            if before is None and lines.end_of_traceback() is None:
                return
            if isinstance(before, _UnreadLine) and before.depth >= _MOST_UNREAD:
                before = self._read(before)
            self._failures[key] = _UnreadLine(index, lines, spans, before)
            self._has_unread = True

    def _read_late_failures(self) -> None:
        """Read the failures that no later one replaced, while their lines are in memory."""
        for key, late in list(self._failures.items()):
            if isinstance(late, _UnreadLine):
                if failure := self._read(late):
                    self._failures[key] = failure
                    self._newest = max(self._newest, failure.line.number)
                else:
                    del self._failures[key]

    def _read_late_remedies(self) -> None:
        for place, late in enumerate(self._remedies):
            if isinstance(late, _UnreadLine):
                there = late.lines.at(late.start, late.number)
                self._remedies[place] = _failure(self._uses[late.index], late, there).line

    def _read(self, late: FailureLine | _UnreadLine | None) -> FailureLine | None:
        """Return the failure, or of tracebacks the last one whose exception is found."""
        while isinstance(late, _UnreadLine):
            use, there = self._uses[late.index], late.lines.at(late.start, late.number)
            if late.spans is None and late.message:
                late.spans = self._matches.spans(late.index, late.message, there)
            if use.kind == "failure" and late.spans is not None:
                return _failure(use, late, there)
            if use.kind != "failure" and (end := there.end_of_traceback()):
                return _failure(use, late, end)
            late = late.before
        return late

    def _keep(self, index: int, lines: Lines, captures: dict[str, str]) -> None:
        """Keep a line of a cause, a sign or a fact."""
        use, scan = self._uses[index], self.scan
        if use.kind == "cause":
            scan.causes.setdefault(use.name, []).append(
                MatchedLine(
                    pattern=use.pattern, number=lines.number, text=lines.text, captures=captures
                )
            )
            self._times[index] += 1
            if self._times[index] == _KEPT:
                self._end(index)
        else:
            if use.kind == "sign":
                scan.signs.add(use.name)
                if use.name in _OF_A_PART:
                    self._signed[use.name] = lines.number
                    self._times[index] = _KEPT  # a sign of the next part too
            else:
                scan.facts = captures | scan.facts
            self._end(index)

    def _structure(self, use: Use, number: int, captures: dict[str, str]) -> None:
        """Let a line begin or end a part of the log."""
        self._effort.spent += STRUCTURE
        structure, names = self.scan.structure, captures.get("names", "")
        if use.name == "captured":
            return
        if use.name == "traceback":
            self._tracebacks.append(number)
            return
        if use.kind == "chain":
            if len(self.scan.superseded) < _MOST_CHAINS:
                start = self._tracebacks[-1] if self._tracebacks else number
                self.scan.superseded.append(Node(level=0, start=start, end=number))
            return
        structure.settle(number)
        if use.kind == "begin":
            structure.begin(use.name, names, number)
        elif use.kind == "done":
            self._overcome(structure.succeed(use.name, names, number))
        elif not structure.is_full:
            is_running = use.kind == "failing"
            if use.kind == "again":
                self._last_attempt = number
            structure.fail(use.name, names, number, goes_on=is_running)
            self._revive()

    def _overcome(self, parts: list[Node]) -> None:
        """Drop the causes and failures in parts of the log."""
        scan = self.scan
        self._effort.spent += len(scan.causes) * KEPT_CAUSE
        scan.signs -= {
            name for name, line in self._signed.items() if any(line in part for part in parts)
        }
        for slug, lines in list(scan.causes.items()):
            _drop(lines, parts)
            if not lines:
                del scan.causes[slug]
                scan.overcome.add(slug)
        if self._has_unread:
            self._read_late_failures()
            self._has_unread = False
        if any(part.start <= self._newest for part in parts):
            self._failures = {
                key: failure
                for key, failure in self._failures.items()
                if not any(_number(failure) in part for part in parts)
            }
            self._newest = max(map(_number, self._failures.values()), default=0)
        self._revive()

    def _revive(self) -> None:
        """Search again for patterns that were met often enough."""
        revived = {index for index, times in self._times.items() if times >= _KEPT} & self._ended
        self._times.clear()
        self._ended -= revived
        for text in {text for index in revived for text in self._texts_of[index]}:
            self._live[text] += tuple(i for i in self._of_text[text] if i in revived)

    def _end(self, index: int) -> None:
        if index not in self._ended:
            self._ended.add(index)
            for text in self._texts_of[index]:
                self._live[text] = tuple(i for i in self._live[text] if i != index)


def _drop(lines: list[MatchedLine], parts: list[Node]) -> None:
    """Remove the lines in parts of the log, except lasting ones; they are in order."""
    for part in parts:
        if lines and part.start <= lines[-1].number:
            first = bisect.bisect_left(lines, part.start, key=lambda line: line.number)
            lines[first:] = [
                line for line in lines[first:] if line.pattern.is_lasting or line.number not in part
            ]


def _number(failure: FailureLine | _UnreadLine) -> int:
    """Return the number of a failure's line."""
    return failure.number if isinstance(failure, _UnreadLine) else failure.line.number


def _failure(use: Use, late: _UnreadLine, lines: Lines) -> FailureLine:
    """Read the failure at a cursor."""
    window = late.window or late.lines.at(late.start, late.number).window
    captures = {name: window[start:end] for name, start, end in late.spans or ()}
    kind = use.name if use.kind == "failure" else "exceptions"
    number, text = lines.number, lines.text
    if kind == "endings":
        number, text = number - 1, lines.text_above
    line = MatchedLine(pattern=use.pattern, number=number, text=text, captures=captures)
    return FailureLine(kind=kind, line=line, context=lines.context())
