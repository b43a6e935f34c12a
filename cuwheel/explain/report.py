"""What a log says, as text for people and as data for machines."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.explain.explanation import Explanation, FoundCause
    from cuwheel.explain.scanner import MatchedLine


_WIDTH = 100  # columns
_LABEL = 10
_EVIDENCE = 2  # lines shown for a cause
_LONGEST = 400  # characters of a line of the log
_HOW_TO_ADD = "docs/how-to/failure-catalogue.md"


def explanation_as_text(explanation: Explanation, name: str) -> str:
    """An explanation to be read; `name` is that of the log."""
    if explanation.causes:
        count = len(explanation.causes)
        what = "the cause" if count == 1 else f"{count} causes, the likeliest first"
        lines = [f"{name}: {what}, from {plural(explanation.lines, 'line')}"]
        for number, found in enumerate(explanation.causes, 1):
            lines += ["", *_cause(number, found)]
    elif explanation.failed:
        lines = [*_unknown(explanation, name)]
    else:
        lines = [f"{name}: no failure found in {plural(explanation.lines, 'line')}"]
        if explanation.overcome:
            lines.append(f"  on its way, and overcome: {', '.join(explanation.overcome)}")
    return "\n".join(lines)


def explanation_as_data(explanation: Explanation, name: str) -> dict[str, Any]:
    """An explanation for machines; the keys stay what they are."""
    failure = explanation.failure
    return {
        "log": name,
        "lines": explanation.lines,
        "failed": explanation.failed,
        "causes": [_cause_data(found) for found in explanation.causes],
        "first_error": _line_data(failure) if failure else None,
        "overcome": list(explanation.overcome),
        "facts": dict(explanation.facts),
    }


def _cause(number: int, found: FoundCause) -> Iterator[str]:
    yield f"{number}. {found.cause.title}"
    for one in found.evidence[:_EVIDENCE]:
        yield from _labelled(f"line {one.number}", one.text[:_LONGEST])
    yield from _labelled("because", found.why)
    yield from _labelled("to fix", found.fix)
    yield from _labelled("confirm", found.cause.confirm)
    yield from _labelled("more", found.anchor)


def _unknown(explanation: Explanation, name: str) -> Iterator[str]:
    yield f"{name}: it failed, and nothing in it is known to cuwheel. The first error:"
    yield ""
    first = explanation.failure.number if explanation.failure else 0
    for number, line in explanation.context.items():
        mark = ">" if number == first else " "
        yield f"  {mark} {number:>7}  {line[:_LONGEST]}"
    yield ""
    yield "  What comes behind the first error often follows from it."
    yield f"  If you find the cause, {_HOW_TO_ADD} tells how to add it; a line of data will do."


def _labelled(label: str, text: str) -> Iterator[str]:
    """A label and its text, wrapped where it has long lines."""
    if not text:
        return
    width = _WIDTH - _LABEL - 5
    lines = [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        or [""]
    ]
    for index, line in enumerate(lines):
        yield f"   {label if index == 0 else '':<{max(_LABEL, len(label) + 1)}}{line}"


def _cause_data(found: FoundCause) -> dict[str, Any]:
    return {
        "slug": found.cause.slug,
        "title": found.cause.title,
        "stage": found.cause.stage,
        "weight": found.weight.name.lower(),
        "evidence": [_line_data(one) for one in found.evidence],
        "why": found.why,
        "fix": found.fix,
        "confirm": found.cause.confirm,
        "anchor": found.anchor,
        "links": list(found.cause.links),
    }


def _line_data(one: MatchedLine) -> dict[str, Any]:
    return {"line": one.number, "text": one.text, "captures": dict(one.captures)}
