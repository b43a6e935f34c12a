"""One pass over a log that finds the first matches of the failure catalogue's patterns."""

from __future__ import annotations

import bisect
import copy
import functools
import operator
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import IO

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from cuwheel.check.explain.catalogue import FailureCause, Pattern, Signs, Weight
from cuwheel.check.explain.lines import CHARACTERS, Lines, last_lines
from cuwheel.check.explain.log_text import Block, blocks
from cuwheel.check.explain.matches import Matches, Message, Spans, Use, uses
from cuwheel.check.explain.structure import MOST_FAILED, Node, Structure

Hits = list[tuple[int, int, int]]  # each: the text's index, its start and its end
_AHEAD = 1  # blocks that are searched while one is examined
_KEPT = 3  # matches of a pattern in a part of the log; more add nothing
_MOST_CHAINS = 100
_MOST_TRANSLATED = 1_000  # lines
_KEPT_REMEDIES = 20
_FIRST = ("diagnostics", "wrappers")  # failures whose first line counts; of others the last
_LAST = ("exceptions", "messages")
_OF_A_PART = ("isolated-build",)  # signs of what a part is, not of the machine
_UNKNOWN: Spans = (("", 0, 0),)
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
        self._uses = tuple(uses(causes, signs))
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
            searching: deque[tuple[Block, Future[Hits]]] = deque()
            for block in blocks(stream):
                searching.append((block, searcher.submit(search, block.text.lower())))
                if len(searching) > _AHEAD:
                    run.examine(*searching.popleft())
            while searching:
                run.examine(*searching.popleft())
        return run.result()


class _Run:
    """The reading of one log."""

    def __init__(
        self,
        uses: tuple[Use, ...],
        indexes: tuple[tuple[int, ...], ...],
        translations: Mapping[str, str],
        search: Callable[[bytes], Hits],
    ) -> None:
        self.scan = Scan()
        self._uses = uses
        self._of_text = [[i for i in of_text if not _is_late(uses[i])] for of_text in indexes]
        self._matches = Matches(uses, self._of_text, indexes, translations, search)
        self._live = [list(of_text) for of_text in self._of_text]
        # By text and kind, the patterns of which only the first or the last matches count.
        self._late = [_by_late_kind(uses, of_text) for of_text in indexes]
        self._waiting: list[tuple[int, int]] = []  # such texts of a block, and their offsets
        self._read = Counter[str]()  # how many of them were read for failures, and for remedies
        self._ended: set[int] = set()  # patterns that were met often enough
        self._times: Counter[int] = Counter()  # matches of a pattern
        self._before: list[str] = []  # the last lines of the block before
        self._signed: dict[str, int] = {}  # lines of signs that a success overcomes
        # By part of the log and kind.
        self._failures: dict[tuple[int, str], FailureLine] = {}
        self._last_attempt = 0  # the line that announces it
        self._remedies: deque[MatchedLine] = deque(maxlen=_KEPT_REMEDIES + 1)
        self._tracebacks: deque[int] = deque(maxlen=_MOST_CHAINS + 1)
        self._newest = 0  # at least the number of any failure's line

    @functools.cached_property
    def _texts_of(self) -> dict[int, list[int]]:
        """The texts of each pattern."""
        texts_of: dict[int, list[int]] = defaultdict(list)
        for text, indexes in enumerate(self._of_text):
            for index in indexes:
                texts_of[index].append(text)
        return texts_of

    def examine(self, block: Block, searched: Future[Hits]) -> None:
        """Match the patterns against each line with one of their texts."""
        lines = Lines(block, self._before)
        self._there = copy.copy(lines)
        texts: list[int] = []  # in the line
        end, limit, live, late = -1, 0, self._live, self._late
        for text, start, _ in searched.result():
            if start > end:
                if texts:
                    self._examine_line(lines, texts)
                    texts = []
                if start >= block.fresh:
                    break
                lines.go_to(start)
                end, limit = lines.end, lines.start + CHARACTERS
            if start < limit:
                if late[text]:
                    self._waiting.append((text, start))
                if live[text]:
                    texts.append(text)
        if texts:
            self._examine_line(lines, texts)
        self._read_failures(block.fresh)
        self._read_advice(block.fresh)
        self._waiting.clear()
        self._read.clear()
        self._before = last_lines(block)
        self.scan.lines = block.number + block.text.count(b"\n") - block.text.endswith(b"\n")

    def result(self) -> Scan:
        """Return the scan after the last block."""
        self._forget_attempts()
        self.scan.failures = sorted(self._failures.values(), key=lambda one: one.line.number)
        self.scan.remedies = list(self._remedies)
        self.scan.tracebacks = list(self._tracebacks)
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

    def _examine_line(self, lines: Lines, texts: list[int]) -> None:
        """Match the patterns of a line's texts."""
        message = self._matches.message(lines, tuple(dict.fromkeys(texts)))
        tried, known = set(), message.spans
        for text in message.texts:
            for index in tuple(self._live[text]):
                if index not in tried:
                    tried.add(index)
                    spans = known.get(index, _UNKNOWN)
                    if spans is _UNKNOWN:
                        spans = self._matches.spans(index, message, lines)
                    if spans is not None:
                        self._keep(index, lines, spans, message)

    def _examine_english(self, index: int, lines: Lines, message: Message) -> None:
        """Match the patterns against the translation of a line; its structure needs none."""
        self._times[index] += 1
        if self._times[index] == _MOST_TRANSLATED:
            self._end(index)
        english, there = self._matches.english(message, lines)
        for other in [other for other in english.texts if other not in self._ended]:
            spans = self._matches.spans(other, english, there)
            if spans is not None:
                self._keep(other, there, spans, english)

    def _keep(self, index: int, lines: Lines, spans: Spans, message: Message) -> None:
        """Keep a match."""
        use, scan = self._uses[index], self.scan
        if use.kind == "foreign":
            self._examine_english(index, lines, message)
        elif use.kind == "failure":
            self._fail(use, lines, spans)
        elif use.kind == "remedy":
            self._read_advice(lines.end)
            self._remedies.append(_matched(use, lines, spans))
        elif use.kind in _STRUCTURE:
            self._structure(use, lines, spans)
        elif use.kind == "cause":
            scan.causes.setdefault(use.name, []).append(_matched(use, lines, spans))
            self._times[index] += 1
            if self._times[index] == _KEPT:
                self._end(index)
        elif use.kind == "fact":
            scan.facts = _captures(lines, spans) | scan.facts
            self._end(index)
        else:
            scan.signs.add(use.name)
            if use.name in _OF_A_PART:
                self._signed[use.name] = lines.number
                self._times[index] = _KEPT  # a sign of the next part too
            self._end(index)

    def _fail(self, use: Use, lines: Lines, spans: Spans) -> None:
        """Keep a line that reports a failure, unless an earlier one counts."""
        self._read_failures(lines.end)
        part = len(self.scan.structure.failed)
        if part >= MOST_FAILED or (use.name in _FIRST and (part, use.name) in self._failures):
            return
        if use.name == "endings" and self._is_no_ending(lines.text_above):
            return
        self._add_failure(part, _failure(use, lines, spans))

    def _add_failure(self, part: int, failure: FailureLine) -> None:
        self._failures[part, failure.kind] = failure
        self._newest = max(self._newest, failure.line.number)

    def _unread(self, name: str, end: int) -> list[tuple[int, int]]:
        """Return texts in lines up to an offset that weren't read."""
        start = self._read[name]
        self._read[name] = bisect.bisect_right(
            self._waiting, end, start, key=operator.itemgetter(1)
        )
        return self._waiting[start : self._read[name]]

    def _read_failures(self, end: int) -> None:
        """Find the failures in lines up to an offset, while they are in memory."""
        waiting = self._unread("failures", end)
        part = len(self.scan.structure.failed)
        for kind in _FIRST:
            if part < MOST_FAILED and (part, kind) not in self._failures:
                self._read_failure(part, kind, waiting)
        waiting.reverse()
        for kind in _LAST:
            self._read_failure(part, kind, waiting)

    def _read_failure(self, part: int, kind: str, waiting: Iterable[tuple[int, int]]) -> None:
        """Keep the first failure of a kind."""
        for text, start in waiting:
            for index in self._late[text].get(kind, ()):
                use, there = self._uses[index], self._there
                if use.kind == "failure" and part >= MOST_FAILED:
                    continue
                there.go_to(start)
                spans = use.spans(there)
                if spans is None:
                    continue
                end = there if use.kind == "failure" else there.end_of_traceback()
                if end:
                    self._add_failure(part, _failure(use, end, spans))
                    return

    def _read_advice(self, end: int) -> None:
        """Find the last remedies in lines up to an offset."""
        remedies: dict[tuple[int, int], MatchedLine] = {}
        for text, start in reversed(self._unread("remedies", end)):
            for index in reversed(self._late[text].get("remedy", ())):
                self._there.go_to(start)
                use, place = self._uses[index], (index, self._there.start)
                spans = None if place in remedies else use.spans(self._there)
                if spans is not None:
                    remedies[place] = _matched(use, self._there, spans)
            if len(remedies) > _KEPT_REMEDIES:
                break
        self._remedies.extend(reversed(remedies.values()))

    @functools.cached_property
    def _is_no_ending(self) -> Callable[[str], bool]:
        """Return True for a last line of output that tells of progress, or only that it failed."""
        wrappers = [u.pattern for u in self._uses if (u.kind, u.name) == ("failure", "wrappers")]
        return functools.lru_cache(
            lambda text: bool(_PROGRESS.match(text)) or any(w.regex.search(text) for w in wrappers)
        )

    def _structure(self, use: Use, lines: Lines, spans: Spans) -> None:
        """Let a line begin or end a part of the log."""
        structure, number = self.scan.structure, lines.number
        names = _captures(lines, spans).get("names", "")
        if use.name == "captured":
            if len(self.scan.captured) < _MOST_CHAINS:
                end = number + lines.lines_to_heading()
                self.scan.captured.append(Node(level=0, start=number, end=end))
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
            self._read_failures(lines.end)
            self._overcome(structure.succeed(use.name, names, number))
        elif not structure.is_full:
            is_running = use.kind == "failing"
            self._read_failures(lines.start - 1 if is_running else lines.end)
            if use.kind == "again":
                self._last_attempt = number
            structure.fail(use.name, names, number, goes_on=is_running)
            self._revive()

    def _overcome(self, parts: list[Node]) -> None:
        """Drop the causes and failures in parts of the log."""
        scan = self.scan
        scan.signs -= {
            name for name, line in self._signed.items() if any(line in part for part in parts)
        }
        for slug, lines in list(scan.causes.items()):
            _drop(lines, parts)
            if not lines:
                del scan.causes[slug]
                scan.overcome.add(slug)
        if any(part.start <= self._newest for part in parts):
            self._failures = {
                key: failure
                for key, failure in self._failures.items()
                if not any(failure.line.number in part for part in parts)
            }
            numbers = (failure.line.number for failure in self._failures.values())
            self._newest = max(numbers, default=0)
        self._revive()

    def _revive(self) -> None:
        """Search again for patterns that were met often enough."""
        revived = {index for index, times in self._times.items() if times >= _KEPT} & self._ended
        self._times.clear()
        self._ended -= revived
        for text in {text for index in revived for text in self._texts_of[index]}:
            self._live[text].extend(i for i in self._of_text[text] if i in revived)

    def _end(self, index: int) -> None:
        if index not in self._ended:
            self._ended.add(index)
            for text in self._texts_of[index]:
                self._live[text].remove(index)


def _drop(lines: list[MatchedLine], parts: list[Node]) -> None:
    """Remove the lines in parts of the log, except lasting ones; they are in order."""
    for part in parts:
        if lines and part.start <= lines[-1].number:
            first = bisect.bisect_left(lines, part.start, key=lambda line: line.number)
            lines[first:] = [
                line for line in lines[first:] if line.pattern.is_lasting or line.number not in part
            ]


def _is_late(use: Use) -> bool:
    """Return True for failures and remedies, of which only the first or the last count."""
    return use.kind == "remedy" or (use.kind == "failure" and use.name != "endings")


def _by_late_kind(uses: Sequence[Use], indexes: Iterable[int]) -> dict[str, tuple[int, ...]]:
    """Return the patterns that are read late, by kind; a traceback is an exception."""
    by_kind: dict[str, tuple[int, ...]] = {}
    for index in indexes:
        use = uses[index]
        kind = "exceptions" if use.name == "traceback" else use.name or use.kind
        if use.name == "traceback" or _is_late(use):
            by_kind[kind] = (*by_kind.get(kind, ()), index)
    return by_kind


_offset = operator.itemgetter(1)


def _captures(lines: Lines, spans: Spans) -> dict[str, str]:
    return {name: lines.window[start:end] for name, start, end in spans}


def _matched(use: Use, lines: Lines, spans: Spans) -> MatchedLine:
    """Return the line of a match."""
    captures = _captures(lines, spans)
    return MatchedLine(pattern=use.pattern, number=lines.number, text=lines.text, captures=captures)


def _failure(use: Use, lines: Lines, spans: Spans) -> FailureLine:
    """Return the failure at a cursor."""
    line = _matched(use, lines, spans)
    if use.name == "endings":
        line = replace(line, number=line.number - 1, text=lines.text_above)
    kind = use.name if use.kind == "failure" else "exceptions"
    return FailureLine(kind=kind, line=line, context=lines.context())
