"""What a log says, as text for people and as data for machines."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cuwheel.explain.catalogue import Weight
from cuwheel.spelling import as_typed
from cuwheel.system.output.documents import Schema
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.explain.explanation import Explanation, FoundCause
    from cuwheel.explain.scanner import MatchedLine


WIDTH = 100  # columns, where there is no narrower terminal
_LABEL = 10
_LEAST = 20  # columns of text beside a label
_EVIDENCE = 2  # lines shown for a cause
_LONGEST = 400  # characters of a line of the log
_HOW_TO_ADD = "docs/how-to/failure-catalogue.md"
Amount = Literal["short", "usual", "whole"]
Sureness = Literal["decisive", "likely", "hint", "perhaps"]
_SURENESS: dict[Weight, Sureness] = {
    Weight.DECISIVE: "decisive",
    Weight.LIKELY: "likely",
    Weight.HINT: "hint",
    Weight.PERHAPS: "perhaps",
}


def explanation_as_text(
    explanation: Explanation, name: str, *, width: int = WIDTH, amount: Amount = "usual"
) -> str:
    """An explanation to be read.

    Args:
        explanation: of a log.
        name: of the log.
        width: columns that no line exceeds.
        amount: `short` is a line for each cause, `whole` has every line of the log that shows one.
    """
    counted = plural(explanation.lines, "line")
    if explanation.causes:
        count = len(explanation.causes)
        what = "the cause" if count == 1 else f"{count} causes, the most likely first"
        if explanation.causes[0].weight is Weight.PERHAPS:
            lines = [*_unknown(explanation, name, width), "", "Perhaps:"]
        else:
            lines = _wrapped(f"{name}: {what}, from {counted}", width)
        for number, found in enumerate(explanation.causes, 1):
            if amount == "short":
                lines += _wrapped(f"{number}. {found.cause.title}: {found.fix}", width)
            else:
                lines += ["", *_cause(number, found, width, is_whole=amount == "whole")]
    elif explanation.failed:
        lines = [*_unknown(explanation, name, width)]
    else:
        lines = _wrapped(f"{name}: no failure found in {counted}", width)
        if explanation.overcome:
            overcome = ", ".join(explanation.overcome)
            lines += _wrapped(f"  errors on the way that did not stop it: {overcome}", width)
    return "\n".join(lines)


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
        weight: how sure it is; `perhaps`: no pattern fits, the words resemble this cause's.
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
class ExplainedLog:
    """What a log says.

    Attributes:
        log: its name, as it was given.
        lines: how many it has.
        failed: whether what wrote it came to a bad end.
        causes: the likeliest first; empty: none is known, or nothing failed.
        first_error: where no cause is known, the first line that speaks of a failure.
        overcome: slugs of what went wrong on the way and was overcome.
        facts: what it says of the machine and the tools, by name: `{"cuda": "12.2"}`.
    """

    log: str
    lines: int
    failed: bool
    causes: tuple[ExplainedCause, ...]
    first_error: LogLine | None
    overcome: tuple[str, ...]
    facts: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ExplainDocument:
    """What `explain --json` prints.

    Attributes:
        logs: in the order in which they were named.
    """

    SCHEMA: ClassVar[Schema] = Schema("explain", "1.0")

    logs: tuple[ExplainedLog, ...]


@dataclass(frozen=True, kw_only=True)
class AnswerDocument:
    """A line that `explain --jsonl` answers a line with.

    Attributes:
        id: of the question, as it was given.
        causes: slugs, the likeliest first.
    """

    SCHEMA: ClassVar[Schema] = Schema("explain-answer", "1.0")

    id: Any
    causes: tuple[str, ...]


def explained_log(explanation: Explanation, name: str) -> ExplainedLog:
    """An explanation as part of a document.

    Args:
        explanation: of the log.
        name: of the log.
    """
    failure = explanation.failure
    return ExplainedLog(
        log=name,
        lines=explanation.lines,
        failed=explanation.failed,
        causes=tuple(map(_explained_cause, explanation.causes)),
        first_error=_log_line(failure) if failure else None,
        overcome=tuple(explanation.overcome),
        facts=dict(explanation.facts),
    )


def _explained_cause(found: FoundCause) -> ExplainedCause:
    return ExplainedCause(
        slug=found.cause.slug,
        title=found.cause.title,
        stage=found.cause.stage,
        weight=_SURENESS[found.weight],
        evidence=tuple(map(_log_line, found.evidence)),
        why=found.why,
        fix=found.fix,
        confirm=as_typed(found.cause.confirm),
        anchor=found.anchor,
        links=tuple(found.cause.links),
    )


def _log_line(one: MatchedLine) -> LogLine:
    return LogLine(line=one.number, text=one.text, captures=dict(one.captures))


def _cause(number: int, found: FoundCause, width: int, *, is_whole: bool) -> Iterator[str]:
    yield from _wrapped(f"{number}. {found.cause.title}", width)
    for one in found.evidence if is_whole else found.evidence[:_EVIDENCE]:
        yield from _labelled(f"line {one.number}", one.text[:_LONGEST], width)
    yield from _labelled("because", found.why, width)
    yield from _labelled("to fix", found.fix, width)
    yield from _labelled("confirm", as_typed(found.cause.confirm), width)
    yield from _labelled("more", found.anchor, width)
    for link in found.cause.links if is_whole else ():
        yield from _labelled("", link, width)


def _unknown(explanation: Explanation, name: str, width: int) -> Iterator[str]:
    told = f"{name}: it failed, and cuwheel knows none of its errors. The first error:"
    yield from (*_wrapped(told, width), "")
    first = explanation.failure.number if explanation.failure else 0
    for number, line in explanation.context.items():
        mark = ">" if number == first else " "
        yield from _wrapped(line[:_LONGEST] or " ", width, start=f"  {mark} {number:>7}  ")
    yield ""
    yield from _wrapped("Later errors often follow from the first one.", width, "  ")
    told = (
        f"If you find the cause, {_HOW_TO_ADD} describes how to add it; one line of data is enough."
    )
    yield from _wrapped(told, width, "  ")


def _labelled(label: str, text: str, width: int) -> Iterator[str]:
    """A label and its text, wrapped where it has long lines."""
    start = f"   {label:<{max(_LABEL, len(label) + 1)}}"
    for line in text.splitlines():
        yield from _wrapped(line, width, start)
        start = " " * len(start)


def _wrapped(text: str, width: int, start: str = "") -> list[str]:
    """A line as several that fit, each behind the same room as the first."""
    room = max(width - len(start), _LEAST)
    lines = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
    # A path or a command that is longer begins at the left, and is cut as a terminal cuts it.
    parts = [line[at : at + room] for line in lines for at in range(0, max(len(line), 1), room)]
    return [f"{start if index == 0 else ' ' * len(start)}{one}" for index, one in enumerate(parts)]
