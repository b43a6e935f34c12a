"""The causes of a failure in a log, without their consequences.

The log's structure decides which of the matches count: those of a part that failed, and of a chain
of exceptions those of the last one. Without a match the answer is the failure's own line.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Literal

from cuwheel.base.spelling import as_typed
from cuwheel.base.system.versions import version_key
from cuwheel.check.explain.catalogue import FailureCause, Signs, Weight, causes, signs
from cuwheel.check.explain.scanner import FailureLine, MatchedLine, Scan, Scanner
from cuwheel.check.explain.structure import Node

Sureness = Literal["decisive", "likely", "hint"]
_SURENESS: Mapping[Weight, Sureness] = {
    Weight.DECISIVE: "decisive",
    Weight.LIKELY: "likely",
    Weight.HINT: "hint",
}
_MAX_CAUSES = 3  # causes that are shown
_NAME = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")  # {cuda_apt=12-4}: with an example for no value
_CONDITION = re.compile(r"(\w+) *(>=|<=|==|!=|<|>) *([\w.]+)")
_COMPARISONS: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_BELOW = re.compile(r"(<=?) ?3\.(\d+)(?!\d)")  # of a range of Pythons
# Errors of a program's own code, which follow from no exception that it caught before.
_OWN_ERROR = re.compile(
    r"\s*(?:Type|ZeroDivision|Index|UnboundLocal)Error\b(?!.*(?:NoneType|CUDA_HOME))"
)
# A missing key may follow from one in its chain, and from nothing before the chain.
_OWN_OR_KEY = re.compile(rf"\s*KeyError\b|{_OWN_ERROR.pattern}")
# What an assertion compares, as unittest and pytest show it.
_COMPARED = re.compile(
    r"\bassert\w*[ (].*(?:==|!=| in |,)|AssertionError: .* (?:!=|not found in) |^E +[-+?] "
)
_TRACED = re.compile(r"\++ \S")  # a command that `set -x` prints
_WARNING = re.compile(r":\d+: \w*Warning: ")  # of Python's module warnings
# A program's own warning, with or without a time before it.
_WARNED = re.compile(r"\W*(?:[\d:.,TZ/+-]+\W+){0,2}WARN(?:ING)?\b\W", re.IGNORECASE)
# A line of source that a traceback, a debugger or a user shows: its text may never be printed.
_SOURCE = re.compile(
    r"\s*(?:-*>? *\d+ +)?(?:raise [\w.]+\(|(?:warnings\.warn|print|log(?:ger|ging)?\.\w+)\(f?['\"])"
)
_SAME_MESSAGE = 2  # lines between two matches of one message
_KINDS = ("exceptions", "diagnostics", "messages", "endings", "wrappers")  # the most specific first


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A line of a log.

    Attributes:
        line: its number, from 1 on.
        text: all of it.
        captures: what was read out of it, by name: `{"arch": "90"}`.
    """

    line: int
    text: str
    captures: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ExplainedCause:
    """A cause that was found.

    Attributes:
        slug: of its entry in the catalogue of failures, `nvcc-not-found`.
        title: the fact in a few words.
        stage: of a build, in which it happens.
        weight: how sure it is, by the rate of right answers on labelled logs.
        evidence: the lines that tell it, the first one first.
        why: the cause.
        fix: what to do.
        confirm: how to see that this is it.
        anchor: where to read on, `TROUBLESHOOTING.md#nvcc-not-found`.
        links: addresses with more.
    """

    slug: str
    title: str
    stage: str
    weight: Sureness
    evidence: tuple[LogLine, ...]
    why: str
    fix: str
    confirm: str
    anchor: str
    links: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A command whose output decides between causes that a log can't tell apart.

    Attributes:
        answers: what it prints → the slug of the cause then.
    """

    command: str
    answers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The result for a log.

    Attributes:
        causes: at most three, the best first; empty: none is known.
        error: the line that says what failed: of its first failed part the last exception, else the
            first diagnostic of a compiler, a linker or CMake, else the last message.
        context: the lines around it, by number.
        question: what decides between the first two causes, where the log can't.
        remedy: the advice of the tool that failed, nearest to its error.
        overcome: slugs of causes before a success.
        unread: lines that were only counted.
    """

    causes: tuple[ExplainedCause, ...]
    failed: bool
    error: LogLine | None
    context: Mapping[int, str]
    question: Question | None
    remedy: LogLine | None
    overcome: tuple[str, ...]
    facts: Mapping[str, str]
    lines: int
    unread: int = 0


@functools.cache
def _scanner() -> Scanner:
    return Scanner(causes().values(), signs())


class Explainer:
    """A reader of many logs by the failure catalogue."""

    def __init__(self) -> None:
        self._causes = causes()
        self._signs = signs()
        self._scanner = _scanner()

    def explain(self, stream: IO[bytes], known: Mapping[str, str] | None = None) -> Explanation:
        """Return the causes of a log's failure.

        Args:
            known: facts that the log need not contain, `{"cuda": "12.2"}`.

        Raises:
            OSError: it can't be read.
        """
        scan = self._scanner.scan(stream)
        named = {"cuda": scan.facts["nvcc"]} if "nvcc" in scan.facts else {}
        facts = _completed({**scan.facts, **(known or {}), **named}, self._signs)
        error = _error(scan)
        if error and error.kind != "wrappers":
            scan.signs.add("first-error")
        if facts.get("driver") == "none":
            scan.signs.add("no-driver")
        met = [
            (max(match.pattern.weight for match in usable), cause)
            for slug, matches in scan.causes.items()
            if (usable := list(_weighed(matches, scan, error, facts)))
            for cause in [_explained(self._causes[slug], usable, facts, self._signs)]
        ]
        shown = self._strongest(met, has_failed=error is not None)
        shown, question = self._with_question(shown, facts)
        return Explanation(
            causes=tuple(shown),
            failed=bool(shown) or error is not None,
            error=_log_line(error.line) if error else None,
            context=error.context if error else {},
            question=question,
            remedy=_remedy(scan, error),
            overcome=tuple(sorted(scan.overcome)),
            facts=facts,
            lines=scan.lines,
            unread=scan.unread,
        )

    def _strongest(
        self, met: Sequence[tuple[Weight, ExplainedCause]], *, has_failed: bool
    ) -> list[ExplainedCause]:
        """Return the causes that follow from no other: the strongest first, then the earliest.

        The order is by the weights of the patterns, not by what their precision allows to claim. A
        hint is shown only if there is nothing better, and a general cause only without another one
        of the same message.
        """
        weights = {cause.slug: weight for weight, cause in met}
        usable = [cause for weight, cause in met if has_failed or weight > Weight.HINT]
        special = [cause for cause in usable if not self._causes[cause.slug].is_general]
        usable = [
            cause
            for cause in usable
            if cause in special or not any(_share_message(cause, other) for other in special)
        ]
        better = {cause.slug for cause in usable if weights[cause.slug] > Weight.HINT}
        brought = {slug for other in better for slug in self._causes[other].brings}
        roots = [cause for cause in usable if cause.slug not in brought]
        roots.sort(key=lambda cause: (-weights[cause.slug], cause.evidence[0].line))
        return [cause for cause in roots if cause.slug in better or cause is roots[0]][:_MAX_CAUSES]

    def _with_question(
        self, shown: list[ExplainedCause], facts: Mapping[str, str]
    ) -> tuple[list[ExplainedCause], Question | None]:
        """Add the other cause that the first one's line can have, and what decides between them."""
        for asked in self._signs.questions if shown else ():
            first = shown[0]
            if asked.cause != first.slug or asked.fact in facts:
                continue
            shows = next(filter(None, (asked.regex.search(e.text) for e in first.evidence)), None)
            if not shows:
                continue
            names = {**facts, **shows.groupdict()}
            for line in first.evidence:
                names |= line.captures
            other = _filled_in(self._causes[asked.other], first.evidence, names, Weight.LIKELY)
            both = [replace(first, weight="likely"), other]
            rest = [cause for cause in shown[1:] if cause.slug != other.slug]
            question = Question(
                command=_filled([asked.command], names), answers=dict(asked.answers)
            )
            return [*both, *rest][:_MAX_CAUSES], question
        return shown, None


def _error(scan: Scan) -> FailureLine | None:
    """Return the most specific line of the first part that failed."""
    part = scan.structure.first_failure()
    lines = [one for one in scan.failures if part and one.line.number in part] or scan.failures
    return min(lines, key=lambda one: _KINDS.index(one.kind), default=None)


def _remedy(scan: Scan, error: FailureLine | None) -> LogLine | None:
    """Return the advice in the failed part that is nearest to its error."""
    if error is None:
        return None
    part = scan.structure.first_failure()
    inside = [one for one in scan.remedies if part is None or one.number in part]
    near = sorted(inside, key=lambda one: abs(one.number - error.line.number))
    return _log_line(near[0]) if near else None


def _weighed(
    matches: Iterable[MatchedLine], scan: Scan, error: FailureLine | None, facts: Mapping[str, str]
) -> Iterator[MatchedLine]:
    """Yield the matches whose conditions hold, weaker where they are not of the failure itself."""
    caught = _caught(scan, error)
    start = _start_of_exception(scan, error)
    for match in matches:
        if not _holds(match, scan, facts) or (caught and match.number in caught):
            continue
        if (
            _TRACED.match(match.text)
            or _is_warning(match, error, scan.lines)
            or _is_compared(match, error)
        ):
            continue
        is_before = match.number < start and not match.pattern.is_lasting
        if is_before and error is not None and _OWN_OR_KEY.match(error.line.text):
            continue
        is_aside = _is_aside(match, scan.captured, error) or _is_source(match, error, scan.lines)
        if is_before or is_aside or _is_status(match, error):
            yield replace(match, pattern=replace(match.pattern, weight=Weight.HINT))
        elif not any(match.number in part for part in scan.superseded):
            yield match
        elif match.pattern.weight > Weight.HINT:
            weaker = replace(match.pattern, weight=Weight(match.pattern.weight - 1))
            yield replace(match, pattern=weaker)


def _is_aside(match: MatchedLine, captured: Sequence[Node], error: FailureLine | None) -> bool:
    """Return True for what a test printed, if its failure is an exception outside of that."""
    return any(
        match.number in part and error.line.number not in part
        for part in captured
        if error is not None and error.kind == "exceptions"
    )


def _is_warning(match: MatchedLine, error: FailureLine | None, lines: int) -> bool:
    """Return True for a warning after which a log goes on, or of Python's beside an exception."""
    if error is None:
        return lines - match.number > _SAME_MESSAGE and _WARNED.match(match.text) is not None
    if error.kind != "exceptions":
        return False
    is_near = abs(error.line.number - match.number) <= _SAME_MESSAGE
    return not is_near and _WARNING.search(match.text) is not None


def _is_source(match: MatchedLine, error: FailureLine | None, lines: int) -> bool:
    """Return True for a line of source that is not the end of a traceback, nor of a log."""
    is_end = match.number == lines or (
        error is not None and abs(error.line.number - match.number) <= _SAME_MESSAGE
    )
    return not is_end and _SOURCE.match(match.text) is not None


def _is_status(match: MatchedLine, error: FailureLine | None) -> bool:
    """Return True for what CMake looked for on its way to an error."""
    return error is not None and "CMake Error" in error.line.text and match.text.startswith("-- ")


def _is_compared(match: MatchedLine, error: FailureLine | None) -> bool:
    """Return True for a text that a failed assertion compares."""
    is_assertion = error is not None and "AssertionError" in error.line.text
    return is_assertion and _COMPARED.search(match.text) is not None


def _start_of_exception(scan: Scan, error: FailureLine | None) -> int:
    """Return the first line of the failure's traceback and its chain: what precedes is a guess."""
    if error is None or error.kind != "exceptions":
        return 0
    start = max((line for line in scan.tracebacks if line < error.line.number), default=0)
    for part in reversed(scan.superseded):
        if part.end < start <= part.end + _SAME_MESSAGE:
            start = part.start
    return start


def _caught(scan: Scan, error: FailureLine | None) -> Node | None:
    """Return the range of exceptions that a program caught before an error of its own code."""
    if error is None or error.kind != "exceptions" or not _OWN_ERROR.match(error.line.text):
        return None
    before = [line for line in scan.tracebacks if line < error.line.number]
    return Node(level=0, start=before[0], end=before[-1]) if len(before) > 1 else None


def _share_message(cause: ExplainedCause, other: ExplainedCause) -> bool:
    return any(
        abs(line.line - near.line) <= _SAME_MESSAGE
        for line in cause.evidence
        for near in other.evidence
    )


def _explained(
    cause: FailureCause, matches: Iterable[MatchedLine], facts: Mapping[str, str], known: Signs
) -> ExplainedCause:
    """Fill in a cause; values from its best match come first."""
    ordered = sorted(matches, key=lambda match: (-match.pattern.weight, match.number))
    names: dict[str, str] = dict(facts)
    for match in reversed(ordered):
        names |= match.captures
    # Two patterns may match one line.
    evidence = tuple({match.number: match for match in reversed(ordered)}.values())[::-1]
    weight = Weight(min(evidence[0].pattern.weight, cause.limit))
    return _filled_in(cause, list(map(_log_line, evidence)), _completed(names, known), weight)


def _filled_in(
    cause: FailureCause, evidence: Sequence[LogLine], names: Mapping[str, str], weight: Weight
) -> ExplainedCause:
    return ExplainedCause(
        slug=cause.slug,
        title=cause.title,
        stage=cause.stage,
        weight=_SURENESS[weight],
        evidence=tuple(evidence),
        why=_filled(cause.why, names),
        fix=_filled(cause.fix, names),
        confirm=as_typed(cause.confirm),
        anchor=f"TROUBLESHOOTING.md#{cause.slug}",
        links=cause.links,
    )


def _log_line(match: MatchedLine) -> LogLine:
    return LogLine(line=match.number, text=match.text, captures=match.captures)


def _filled(templates: Iterable[str], names: Mapping[str, str]) -> str:
    """Return the first template with known names only, with their values."""
    release = ".".join(names.get("cuda", "").split(".")[:2])
    if release:
        names = {
            **names,
            "cuda_release": release,
            "cuda_apt": release.replace(".", "-"),
            "cuda_major": release.partition(".")[0],
        }
    for template in templates:
        if all(name in names or example for name, example in _NAME.findall(template)):
            filled = _NAME.sub(lambda name: names.get(name[1], name[2]), template)
            return " ".join(filled.split())
    return ""


def _completed(facts: Mapping[str, str], known: Signs) -> dict[str, str]:
    """Return the facts, and the values of the tables for them."""
    complete = dict(facts)
    if "cuda" not in complete and "cuda_tag" in complete:
        complete["cuda"] = f"{complete['cuda_tag'][:-1]}.{complete['cuda_tag'][-1]}"  # cu122
    if limit := _BELOW.search(complete.get("wanted", "")):
        complete["newest_python"] = f"3.{int(limit[2]) - (limit[1] == '<')}"
    for name, (fact, values) in known.tables.items():
        value = complete.get(fact, "")
        short = ".".join(value.split(".")[:2])  # 12.2 of 12.2.140
        if name not in complete and (entry := values.get(value) or values.get(short)):
            complete[name] = entry
    return complete


def _holds(match: MatchedLine, scan: Scan, facts: Mapping[str, str]) -> bool:
    names = {**facts, **match.captures}
    return all(_is_met(need, scan.signs, names) for need in match.pattern.needs)


def _is_met(need: str, met: set[str], facts: Mapping[str, str]) -> bool:
    if need.startswith("not "):
        return not _is_met(need.removeprefix("not "), met, facts)
    condition = _CONDITION.fullmatch(need)
    if not condition:
        return need in met
    name, comparison, limit = condition.groups()
    limit = facts.get(limit, limit)  # of another fact
    if not limit[0].isdigit():  # a word: cpu
        return comparison in ("==", "!=") and (facts.get(name) == limit) == (comparison == "==")
    return name in facts and _COMPARISONS[comparison](version_key(facts[name]), version_key(limit))
