"""The causes of a failure in a log, without their consequences.

If no pattern matches a failure, the most similar cause is named, as a guess: the words of its first
lines are compared with those of each cause's examples and title. A word counts the more, the fewer
causes have it: inverse document frequency, and the cosine of the angle between the two (Salton and
McGill, Introduction to Modern Information Retrieval, 1983).
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import IO, Literal

from cuwheel.base.spelling import as_typed
from cuwheel.base.system.versions import version_key
from cuwheel.check.explain.catalogue import FailureCause, Signs, Weight, causes, signs
from cuwheel.check.explain.scanner import MatchedLine, Scan, Scanner

Sureness = Literal["decisive", "likely", "hint", "perhaps"]
_STRENGTH: tuple[Sureness, ...] = ("decisive", "likely", "hint", "perhaps")
_MAX_CAUSES = 3  # causes that are shown
_NAME = re.compile(r"\{(\w+)\}")
_CONDITION = re.compile(r"(\w+) *(>=|<=|==|<|>) *([\w.]+)")
_COMPARISONS: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
# Words of similar causes: names, options and words; a path falls into its parts, versions and
# addresses are left out.
_WORD = re.compile(r"[A-Za-z][A-Za-z_+]{2,}(?:\d{1,2}(?![\d.]))?")
_LEAST = 0.12  # cosine; below it the words in common are those of any failure
_FEWEST = 2  # words in common; a single one is no evidence, however rare
_LONGEST = 400  # characters of a line that are compared


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

    @property
    def is_known(self) -> bool:
        """True if a pattern fits; else it is a guess."""
        return self.weight != "perhaps"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The result for a log.

    Attributes:
        causes: at most three, the best first; if no pattern matches, the most similar one, if any.
        first_error: the first line that reports a failure after the last success.
        context: the lines around it, by number.
        overcome: slugs of causes before a success.
    """

    causes: tuple[ExplainedCause, ...]
    failed: bool
    first_error: LogLine | None
    context: Mapping[int, str]
    overcome: tuple[str, ...]
    facts: Mapping[str, str]
    lines: int


class Explainer:
    """A reader of many logs by the failure catalogue."""

    def __init__(self) -> None:
        self._causes = causes()
        self._signs = signs()
        self._scanner = Scanner(self._causes.values(), self._signs)

    def explain(self, stream: IO[bytes], known: Mapping[str, str] | None = None) -> Explanation:
        """Return the causes of a log's failure.

        Args:
            known: facts that the log need not contain, `{"cuda": "12.2"}`.

        Raises:
            OSError: it can't be read.
        """
        scan = self._scanner.scan(stream)
        facts = _completed({**scan.facts, **(known or {})}, self._signs)
        met = [
            _explained(self._causes[slug], usable, facts, self._signs)
            for slug, matches in scan.causes.items()
            if (usable := [match for match in matches if _holds(match, scan, facts)])
        ]
        shown = self._strongest(met, has_failed=scan.failure is not None)
        if scan.failure and not shown and (slug := self._similar(scan.context.values())):
            guess = _explained(self._causes[slug], [scan.failure], facts, self._signs)
            shown = [replace(guess, weight="perhaps")]
        return Explanation(
            causes=tuple(shown),
            failed=bool(shown) or scan.failure is not None,
            first_error=_log_line(scan.failure) if scan.failure else None,
            context=scan.context,
            overcome=tuple(sorted(scan.overcome)),
            facts=facts,
            lines=scan.lines,
        )

    def _strongest(
        self, met: Iterable[ExplainedCause], *, has_failed: bool
    ) -> list[ExplainedCause]:
        """Return the causes that follow from no other: the strongest first, then the earliest.

        A hint is shown only if there is nothing better.
        """
        usable = [cause for cause in met if has_failed or cause.weight != "hint"]
        better = {cause.slug for cause in usable if cause.weight != "hint"}
        brought = {slug for other in better for slug in self._causes[other].brings}
        roots = [cause for cause in usable if cause.slug not in brought]
        roots.sort(key=lambda cause: (_STRENGTH.index(cause.weight), cause.evidence[0].line))
        return [cause for cause in roots if cause.slug in better or cause is roots[0]][:_MAX_CAUSES]

    def _similar(self, lines: Iterable[str]) -> str:
        """Return the slug of the cause with the most words in common; empty: none has enough."""
        weights, vectors = self._words
        query = _vector([line[:_LONGEST] for line in lines], weights)
        cosines = {
            slug: sum(query[word] * vector[word] for word in common)
            for slug, vector in vectors.items()
            if len(common := query.keys() & vector.keys()) >= _FEWEST
        }
        best = max(cosines, key=lambda slug: cosines[slug], default="")
        return best if cosines.get(best, 0) >= _LEAST else ""

    @functools.cached_property
    def _words(self) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """The weight of each word, and the words of each cause."""
        lines = {slug: [cause.title, *cause.examples] for slug, cause in self._causes.items()}
        shares = Counter(word for texts in lines.values() for word in _counted(texts))
        weights = {word: math.log(len(lines) / share) for word, share in shares.items()}
        return weights, {slug: _vector(texts, weights) for slug, texts in lines.items()}


def _counted(lines: Iterable[str]) -> Counter[str]:
    return Counter(word.lower() for line in lines for word in _WORD.findall(line))


def _vector(lines: Iterable[str], weights: Mapping[str, float]) -> dict[str, float]:
    """Return a vector of length 1; a frequent word counts a little more."""
    vector = {
        word: (1 + math.log(count)) * weights[word]
        for word, count in _counted(lines).items()
        if word in weights
    }
    length = math.hypot(*vector.values()) or 1
    return {word: weight / length for word, weight in vector.items()}


def _explained(
    cause: FailureCause, matches: Iterable[MatchedLine], facts: Mapping[str, str], known: Signs
) -> ExplainedCause:
    """Fill in a cause; values from its best match come first."""
    ordered = sorted(matches, key=lambda match: (-match.pattern.weight, match.number))
    names: dict[str, str] = dict(facts)
    for match in reversed(ordered):
        names |= match.captures
    names = _completed(names, known)
    # Two patterns may match one line.
    evidence = tuple({match.number: match for match in reversed(ordered)}.values())[::-1]
    return ExplainedCause(
        slug=cause.slug,
        title=cause.title,
        stage=cause.stage,
        weight=_STRENGTH[Weight.DECISIVE - evidence[0].pattern.weight],
        evidence=tuple(map(_log_line, evidence)),
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
    for template in templates:
        if all(name in names for name in _NAME.findall(template)):
            return " ".join(_NAME.sub(lambda name: names[name[1]], template).split())
    return ""


def _completed(facts: Mapping[str, str], known: Signs) -> dict[str, str]:
    """Return the facts, and the values of the tables for them."""
    complete = dict(facts)
    if "cuda" not in complete and "cuda_tag" in complete:
        complete["cuda"] = f"{complete['cuda_tag'][:-1]}.{complete['cuda_tag'][-1]}"  # cu122
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
    if condition := _CONDITION.fullmatch(need):
        name, comparison, limit = condition.groups()
        return name in facts and _COMPARISONS[comparison](
            version_key(facts[name]), version_key(limit)
        )
    return need.removeprefix("not ") not in met if need.startswith("not ") else need in met
