"""Matches of the catalogue's patterns with lines, each searched for once.

A log of a job that fails again and again has the same lines, or lines that differ in digits only:
a time, a rank, a count. A pattern whose parts match each digit or none has the same match there.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cuwheel.check.explain.catalogue import FailureCause, Pattern, Signs
from cuwheel.check.explain.effort import CHARACTER, FIRST, MESSAGE, OTHERS, SEARCH, TEXT, Effort
from cuwheel.check.explain.lines import Lines
from cuwheel.check.explain.relaxed import is_same_for_digits, relaxed
from cuwheel.check.explain.search import Search

Choice = tuple[tuple[int, ...], dict[int, None]]  # texts that count; patterns that can't match
Spans = tuple[tuple[str, int, int], ...]  # each: a group's name, its start and its end
_MOST_MESSAGES = 5_000  # that are remembered
_LONGEST = 1_500  # bytes of one
_OFTEN = 8  # times that a message is met before all its patterns are tried
_MOST_EXACT = 3_000  # messages of which more is known than of those alike
_MOST_CHOICES = 20_000  # sets of texts with known patterns
_SHORTEST = 4  # characters of a text that is searched for in a message
_DIGIT = re.compile(r"\d")
# A commit's subject after its hash: it may name an error that it corrects.
_COMMIT = re.compile(r"(?:HEAD is now at |\* )?[0-9a-f]{7,40} \S")
_OF_ENGLISH = ("cause", "failure", "sign", "remedy", "fact")


@dataclass(frozen=True, kw_only=True)
class Use:
    """A pattern, its kind of match, and the cause or sign that it is for."""

    pattern: Pattern
    kind: str
    name: str = ""

    def may_match(self, line: bytes) -> bool:
        """Return True if a line, in lower case, has one of each set of the pattern's texts."""
        for texts in self._others:
            for text in texts:
                if text in line:
                    break
            else:
                return False
        return True

    def spans(self, lines: Lines) -> Spans | None:
        """Return the named groups of a match that begins in the cursor's line."""
        match = self.pattern.regex.search(lines.window)
        if not match or match.start() > lines.length or _COMMIT.match(lines.window):
            return None
        return tuple((name, *match.span(name)) for name, text in match.groupdict().items() if text)

    def may_match_alike(self, lines: Lines) -> bool:
        """Return False if it matches no message with other digits than the cursor's."""
        match = relaxed(self.pattern.source).search(lines.window)
        return match is not None and match.start() <= lines.length

    @functools.cached_property
    def ignores_digits(self) -> bool:
        """True if its matches are the same after any digit is replaced by another."""
        return self.kind != "foreign" and is_same_for_digits(self.pattern.source)

    @functools.cached_property
    def _others(self) -> tuple[tuple[bytes, ...], ...]:
        return tuple(tuple(text.encode() for text in texts) for texts in self.pattern.others)

    @functools.cached_property
    def sets_without_digits(self) -> tuple[frozenset[str], ...]:
        """Sets of texts, one of each of which is in all messages alike with a match, or in none."""
        return tuple(
            frozenset(texts)
            for texts in self.pattern.others
            if not any(len(text) < _SHORTEST or _DIGIT.search(text) for text in texts)
        )


def uses(causes: Iterable[FailureCause], signs: Signs) -> Iterator[Use]:
    """Yield all patterns; the last is of translated phrases."""
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
            yield Use(pattern=pattern, kind=kind, name=name)
    foreign = tuple(phrase.encode().lower().decode() for phrase in signs.translations)
    yield Use(pattern=Pattern(source="", texts=foreign), kind="foreign")


class Message:
    """The matches of messages that are equal but for their digits, or of one message.

    Attributes:
        texts: indexes of the texts in the first line, in their order.
        spans: groups by pattern, None without a match; patterns that weren't tried lack.
        is_exact: of one message.
        lines: of an English message, its window and its lines in lower case.
    """

    __slots__ = ("english", "has_address", "is_exact", "lines", "spans", "texts", "times")

    def __init__(
        self, texts: tuple[int, ...], *, is_exact: bool, has_address: bool = False
    ) -> None:
        self.texts = texts
        self.times = 1
        self.has_address = has_address
        self.spans: dict[int, Spans | None] = {}
        self.is_exact = is_exact
        self.lines: tuple[str, bytes] = ("", b"")
        self.english: Message | None = None


class Patterns:
    """All patterns of the catalogue, by the texts that a line has to have.

    Attributes:
        of_text: indexes of the patterns of each text that is searched for.
        search: for these texts.
        translations: phrases of tools in other languages.
    """

    def __init__(self, causes: Iterable[FailureCause], signs: Signs) -> None:
        self.uses = tuple(uses(causes, signs))
        by_text: dict[str, list[int]] = defaultdict(list)
        for index, use in enumerate(self.uses):
            for text in use.pattern.texts:
                by_text[text].append(index)
        self.of_text = tuple(map(tuple, by_text.values()))
        self.search = Search(by_text)
        self.translations = signs.translations
        sets = (texts for use in self.uses for texts in use.sets_without_digits)
        self._others = tuple(dict.fromkeys(itertools.chain.from_iterable(sets)))
        self._search_of_others = Search(self._others)
        self._choices: dict[tuple[tuple[int, ...], frozenset[int]], Choice] = {}

    def choice(self, texts: tuple[int, ...], near: bytes) -> Choice:
        """Return the texts of a message that count, and the patterns that it can't match.

        Args:
            texts: in its first line, whose patterns may match.
            near: all of it, in lower case.
        """
        key = (texts, frozenset(text for text, _, _ in self._search_of_others.hits(near)))
        choice = self._choices.get(key)
        if choice is None:
            if len(self._choices) >= _MOST_CHOICES:
                self._choices.clear()
            choice = self._choices[key] = self._choose(*key)
        return choice

    def _choose(self, texts: tuple[int, ...], others: frozenset[int]) -> Choice:
        there = {self._others[index] for index in others}
        impossible = {
            index: None
            for index in {index for text in texts for index in self.of_text[text]}
            if any(there.isdisjoint(texts) for texts in self.uses[index].sets_without_digits)
        }
        useful = (text for text in texts if not impossible.keys() >= {*self.of_text[text]})
        return tuple(useful), impossible


class Matches:
    """The matches in one log."""

    def __init__(self, patterns: Patterns, effort: Effort) -> None:
        self._patterns = patterns
        self._uses = patterns.uses
        self._effort = effort
        self._known: dict[tuple[bytes, tuple[int, ...]], Message] = {}
        self._exact: dict[tuple[bytes, tuple[int, ...]], Message] = {}
        self._searched_for: set[str] = set()

    def message(self, lines: Lines, texts: tuple[int, ...]) -> Message:
        """Return what is known of the message at a cursor."""
        plain = lines.short_message(_LONGEST)
        if plain is None:
            return self._new(texts, lines, is_exact=True)
        key = (plain, texts)
        message = self._known.get(key)
        if message is None:
            if len(self._known) >= _MOST_MESSAGES:
                for oldest in tuple(itertools.islice(self._known, _MOST_MESSAGES // 2)):
                    del self._known[oldest]
            message = self._known[key] = self._new(texts, lines, is_exact=False)
        elif message.times < _OFTEN:
            message.times += 1
            if message.times == _OFTEN:
                self._complete(message, lines)
        return message

    def spans(self, index: int, message: Message, lines: Lines) -> Spans | None:
        """Return the named groups of a pattern's match, or None."""
        if not self._is_shared(index, message):
            message = self._exactly(message, lines)
        if index not in message.spans:
            message.spans[index] = self._searched(self._uses[index], lines)
        return message.spans[index]

    def _searched(self, use: Use, lines: Lines) -> Spans | None:
        self._effort.spent += OTHERS
        if not use.may_match(lines.near):
            return None
        self._effort.spent += SEARCH + len(lines.window) * CHARACTER
        if use.pattern.source not in self._searched_for:
            self._searched_for.add(use.pattern.source)
            self._effort.spent += FIRST
        return use.spans(lines)

    def english(self, message: Message, lines: Lines) -> tuple[Message, Lines]:
        """Return the message in English, whose texts are indexes of patterns in their order."""
        exact = self._exactly(message, lines)
        if exact.english is None:
            there = lines.translated(self._patterns.translations)
            found = {
                text for text, _, _ in self._patterns.search.hits(there.near.partition(b"\n")[0])
            }
            indexes = {index for text in found for index in self._patterns.of_text[text]}
            usable = (index for index in sorted(indexes) if self._uses[index].kind in _OF_ENGLISH)
            exact.english = Message(tuple(usable), is_exact=True)
            exact.english.lines = (there.window, there.near)
        return exact.english, lines.reading(*exact.english.lines)

    def _new(self, texts: tuple[int, ...], lines: Lines, *, is_exact: bool) -> Message:
        """Return a message to try all patterns with, except those that its texts exclude."""
        self._effort.spent += MESSAGE + len(texts) * TEXT
        if not is_exact and lines.has_address:  # which another one alike may lack
            return Message(texts, is_exact=False, has_address=True)
        useful, impossible = self._patterns.choice(texts, lines.near)
        message = Message(useful, is_exact=is_exact)
        message.spans.update(impossible)
        return message

    def _exactly(self, message: Message, lines: Lines) -> Message:
        """Return what is known of the message at a cursor and of no other one alike."""
        if message.is_exact:
            return message
        key = (lines.message, message.texts)
        known = self._exact.get(key)
        if known is None:
            if len(self._exact) >= _MOST_EXACT:
                self._exact.clear()
            known = self._exact[key] = Message(message.texts, is_exact=True)
        return known

    def _is_shared(self, index: int, message: Message) -> bool:
        """Return True if a pattern has the same match in all messages alike."""
        if message.is_exact:
            return True
        return not message.has_address and self._uses[index].ignores_digits

    def _complete(self, message: Message, lines: Lines) -> None:
        """Try all patterns, and forget texts of which none can match in a message alike."""
        plain = lines.without_numbers()
        useful = set()
        for text in set(message.texts):
            for index in self._patterns.of_text[text]:
                if self._is_shared(index, message):
                    self.spans(index, message, lines)
                elif (
                    self._uses[index].kind != "foreign"
                    and index not in message.spans
                    and (not self._uses[index].may_match_alike(plain))
                ):
                    message.spans[index] = None
                if message.spans.get(index, ()) is not None:
                    useful.add(text)
        message.texts = tuple(text for text in message.texts if text in useful)
