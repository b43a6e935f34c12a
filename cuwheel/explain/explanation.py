"""What made a log end badly: causes without what follows from them, each with what to do."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cuwheel.explain.catalogue import Weight, causes, signs
from cuwheel.explain.nearest import Nearest
from cuwheel.explain.scanner import Scanner
from cuwheel.system.versions import version_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cuwheel.explain.catalogue import FailureCause, Signs
    from cuwheel.explain.scanner import MatchedLine, Scan


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


@dataclass(frozen=True, kw_only=True)
class FoundCause:
    """A cause that a log shows.

    Attributes:
        cause: the entry of the catalogue.
        weight: of the evidence.
        evidence: lines that show it, the best first.
        why: the cause in this case.
        fix: what to do in this case.
    """

    cause: FailureCause
    weight: Weight
    evidence: tuple[MatchedLine, ...]
    why: str
    fix: str

    @property
    def anchor(self) -> str:
        """Where TROUBLESHOOTING.md says more."""
        return f"TROUBLESHOOTING.md#{self.cause.slug}"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a log says.

    Attributes:
        causes: three at most, the best first; where no pattern fits, the one that the failure
            resembles, if there is one.
        failed: whether anything in it speaks of a failure that was not overcome.
        failure: the first line of that, where no cause is known.
        context: that line and those around it, by number.
        overcome: slugs of causes that a success came after.
        facts: what else it tells: releases and versions by name.
        lines: how many it has.
    """

    causes: tuple[FoundCause, ...]
    failed: bool
    failure: MatchedLine | None
    context: Mapping[int, str]
    overcome: tuple[str, ...]
    facts: Mapping[str, str]
    lines: int


class Explainer:
    """Reads logs by the failure catalogue; made once for many."""

    def __init__(self) -> None:
        self._causes = causes()
        self._signs = signs()
        self._scanner = Scanner(self._causes.values(), self._signs)

    def explain(self, stream: IO[bytes], known: Mapping[str, str] | None = None) -> Explanation:
        """Say why a log ends as it does.

        Args:
            stream: the log, of any size and encoding.
            known: facts that need not stand in it, as `{"cuda": "12.2"}`.

        Raises:
            OSError: it can't be read.
        """
        scan = self._scanner.scan(stream)
        facts = _completed({**scan.facts, **(known or {})}, self._signs)
        met = [
            _found(self._causes[slug], usable, facts, self._signs)
            for slug, matches in scan.causes.items()
            if (usable := [one for one in matches if _holds(one, scan, facts)])
        ]
        shown = _judged(met, has_failed=scan.failure is not None) or self._resembled(scan, facts)
        return Explanation(
            causes=shown,
            failed=bool(shown) or scan.failure is not None,
            failure=scan.failure,
            context=scan.context,
            overcome=tuple(sorted(scan.overcome)),
            facts=facts,
            lines=scan.lines,
        )

    def _resembled(self, scan: Scan, facts: Mapping[str, str]) -> tuple[FoundCause, ...]:
        """A guess, where something failed and no pattern says why."""
        slug = self._nearest.cause(scan.context.values()) if scan.failure else ""
        if not slug or not scan.failure:
            return ()
        found = _found(self._causes[slug], [scan.failure], facts, self._signs)
        return (dataclasses.replace(found, weight=Weight.PERHAPS),)

    @functools.cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self._causes)


def _judged(met: Iterable[FoundCause], *, has_failed: bool) -> tuple[FoundCause, ...]:
    """Those that are no consequence of another; the strongest first, then the earliest."""
    kept = [one for one in met if has_failed or one.weight > Weight.HINT]
    brought = {slug for one in kept if one.weight > Weight.HINT for slug in one.cause.brings}
    left = [one for one in kept if one.cause.slug not in brought]
    left.sort(key=lambda one: (-one.weight, one.evidence[0].number))
    # A hint is worth showing only where there is nothing better.
    return tuple(one for one in left if one.weight > Weight.HINT or one is left[0])[:_MAX_CAUSES]


def _found(
    cause: FailureCause, matches: list[MatchedLine], facts: Mapping[str, str], known: Signs
) -> FoundCause:
    ordered = sorted(matches, key=lambda one: (-one.pattern.weight, one.number))
    names: dict[str, str] = dict(facts)
    for one in reversed(ordered):
        names |= one.captures
    names = _completed(names, known)
    # Two patterns may meet one line.
    evidence = tuple({one.number: one for one in reversed(ordered)}.values())[::-1]
    return FoundCause(
        cause=cause,
        weight=evidence[0].pattern.weight,
        evidence=evidence,
        why=_filled(cause.why, names),
        fix=_filled(cause.fix, names),
    )


def _filled(templates: Iterable[str], names: Mapping[str, str]) -> str:
    """The first template whose names are all known, with their values."""
    for template in templates:
        if all(name in names for name in _NAME.findall(template)):
            return " ".join(_NAME.sub(lambda found: names[found[1]], template).split())
    return ""


def _completed(facts: Mapping[str, str], known: Signs) -> dict[str, str]:
    """Facts, and what the tables say of them."""
    made = dict(facts)
    if "cuda" not in made and "cuda_tag" in made:
        made["cuda"] = f"{made['cuda_tag'][:-1]}.{made['cuda_tag'][-1]}"  # cu122
    for name, (fact, values) in known.tables.items():
        value = made.get(fact, "")
        short = ".".join(value.split(".")[:2])  # 12.2 of 12.2.140
        if name not in made and (found := values.get(value) or values.get(short)):
            made[name] = found
    return made


def _holds(match: MatchedLine, scan: Scan, facts: Mapping[str, str]) -> bool:
    names = {**facts, **match.captures}
    return all(_is_met(need, scan.signs, names) for need in match.pattern.needs)


def _is_met(need: str, met: set[str], facts: Mapping[str, str]) -> bool:
    if found := _CONDITION.fullmatch(need):
        name, comparison, limit = found.groups()
        return name in facts and _COMPARISONS[comparison](
            version_key(facts[name]), version_key(limit)
        )
    return need.removeprefix("not ") not in met if need.startswith("not ") else need in met
