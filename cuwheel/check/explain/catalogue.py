"""The failure catalogue, from `failures/*.yaml`.

Their format and the way to add a case are in docs/how-to/failure-catalogue.md;
TROUBLESHOOTING.md is written from them.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.check.explain.literals import required_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOLDER = Path(__file__).parent / "failures"
# In an installed cuwheel: the output of `prepared` when its wheel was built. Reading YAML and
# finding the texts of 1,700 patterns takes a second.
_PREPARED = Path(__file__).with_name("failures.json")
_SIGNS = "signs.yaml"  # other patterns than causes: structure, failures in general, facts, tables
_PRECISION = "precision.yaml"  # how often a cause was the right answer on labelled logs
_FEWEST = 3  # right answers, and
_LEAST = 0.97  # of them among all, of a cause that may be called decisive
_WORD = re.compile("<<([a-z-]+)>>")  # a part of patterns that `words` of signs.yaml holds
_SHORTEST = 4  # bytes of a text to search for


class Weight(IntEnum):
    """The strength of a matching line."""

    HINT = 1  # occurs in healthy logs too; counts if nothing else explains a failure
    LIKELY = 2  # an error that has this cause nearly always, or names it in general words
    DECISIVE = 3  # an error that has this cause alone


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A pattern of a tool's output.

    Attributes:
        source: a regular expression for a line and the two after it, case ignored; a match has to
            begin in the first of them.
        texts: one of which is in every match.
        others: more such sets.
        needs: conditions on the whole log: a sign or a comparison of a fact (`cuda >= 13`), or
            `not` one.
        is_lasting: a later success doesn't overcome it: pip prints a conflict of versions before
            its "Successfully installed".
    """

    source: str
    texts: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()
    weight: Weight = Weight.DECISIVE
    needs: tuple[str, ...] = ()
    is_lasting: bool = False

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """The expression, compiled at its first use: a log has the texts of few of them."""
        return _compiled(self.source)


@dataclass(frozen=True, kw_only=True)
class FailureCause:
    """A failure and its fix.

    Attributes:
        stage: configure, compile, device-link, link, package, repair, install, import or runtime.
        why: templates of the cause: the first with known names only is used.
        brings: slugs of its consequences.
        is_general: it gives way to another cause of the same line.
        limit: the weight that its measured precision allows.
    """

    slug: str
    stage: str
    title: str
    patterns: tuple[Pattern, ...]
    why: tuple[str, ...]
    fix: tuple[str, ...]
    confirm: str
    links: tuple[str, ...]
    brings: tuple[str, ...] = ()
    akin: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    is_general: bool = False
    limit: Weight = Weight.DECISIVE


@dataclass(frozen=True, kw_only=True)
class Group:
    """Related causes, a section of TROUBLESHOOTING.md."""

    title: str
    about: str
    causes: tuple[FailureCause, ...]


@dataclass(frozen=True, kw_only=True)
class AskedFact:
    """A fact that decides between two causes of one message, and the command that prints it.

    Attributes:
        pattern: of the lines that both causes print.
        answers: output of the command → slug.
    """

    cause: str
    other: str
    fact: str
    pattern: str
    command: str
    answers: tuple[tuple[str, str], ...]

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return _compiled(self.pattern)


@dataclass(frozen=True, kw_only=True)
class Signs:
    """The patterns other than causes.

    Attributes:
        failures: kind → patterns.
        structure: event (begin, done, failed) and level of the part of a log → patterns.
        named: sign → patterns; a cause's pattern may need one.
        tables: name → the fact for the look-up, and value by value of the fact.
        translations: phrase of a tool in another language → its English.
    """

    failures: Mapping[str, tuple[Pattern, ...]]
    structure: Mapping[tuple[str, str], tuple[Pattern, ...]]
    chains: tuple[Pattern, ...]
    remedies: tuple[Pattern, ...]
    facts: tuple[Pattern, ...]
    named: Mapping[str, tuple[Pattern, ...]]
    tables: Mapping[str, tuple[str, Mapping[str, str]]]
    questions: tuple[AskedFact, ...]
    translations: Mapping[str, str]


@functools.cache
def groups() -> tuple[Group, ...]:
    """Return the catalogue in the order of its pages."""
    contents = [
        _read(path) for path in _FOLDER.glob("*.yaml") if path.name not in (_SIGNS, _PRECISION)
    ]
    return tuple(
        Group(
            title=content["title"],
            about=content["about"],
            causes=tuple(map(_cause, content["causes"])),
        )
        for content in sorted(contents, key=lambda content: content["order"])
    )


@functools.cache
def causes() -> Mapping[str, FailureCause]:
    """Return the causes by slug."""
    return {cause.slug: cause for group in groups() for cause in group.causes}


@functools.cache
def signs() -> Signs:
    """Return the patterns other than causes."""
    content = _read(_FOLDER / _SIGNS)
    return Signs(
        failures={kind: _patterns(regexes) for kind, regexes in content["failures"].items()},
        structure={
            (event, level): _patterns(regexes)
            for event, levels in content["structure"].items()
            for level, regexes in levels.items()
        },
        chains=_patterns(content["chains"]),
        remedies=_patterns(content["remedies"]),
        facts=_patterns(content["facts"]),
        named={name: _patterns(regexes) for name, regexes in content["signs"].items()},
        tables={
            name: (table["by"], {str(key): str(value) for key, value in table["values"].items()})
            for name, table in content["tables"].items()
        },
        questions=tuple(
            AskedFact(**{**entry, "answers": tuple(entry["answers"].items())})
            for entry in content["questions"]
        ),
        translations={
            phrase: english
            for english, phrases in content["translations"].items()
            for phrase in phrases
        },
    )


def prepared() -> str:
    """Return the files and the texts of their patterns, as JSON for a wheel of cuwheel.

    Raises:
        ValueError: a file is invalid.
    """
    groups = [cause.patterns for cause in causes().values()]
    kinds = (signs().failures, signs().structure, signs().named)
    groups += [patterns for kind in kinds for patterns in kind.values()]
    groups += [signs().facts, signs().chains, signs().remedies]
    content = {
        "files": {path.name: _read(path) for path in sorted(_FOLDER.glob("*.yaml"))},
        "texts": {p.source: (p.texts, *p.others) for patterns in groups for p in patterns},
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


@functools.cache
def _as_prepared() -> dict[str, Any]:
    """Return the prepared content; empty in a checkout."""
    if not _PREPARED.is_file():
        return {"files": {}, "texts": {}}
    content: dict[str, Any] = parse_json(read_text(_PREPARED))
    return content


@functools.cache
def _read(path: Path) -> Any:
    if ready := _as_prepared()["files"].get(path.name):
        return ready
    import yaml  # noqa: PLC0415 - prepared content needs none

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, if it was built
    return yaml.load(read_text(path), Loader=loader)  # noqa: S506 - both are safe loaders


def _cause(content: dict[str, Any]) -> FailureCause:
    known = set(FailureCause.__dataclass_fields__) - {"is_general", "limit"}
    if unknown := sorted(set(content) - known - {"general"}):
        raise ValueError(f"{content.get('slug')}: unknown fields: {', '.join(unknown)}")
    texts = {"slug", "stage", "title", "confirm"}
    fields: dict[str, Any] = {name: content[name].strip() for name in texts}
    for name in known - texts - {"patterns"}:
        fields[name] = _texts(content.get(name, []))
    fields["is_general"] = bool(content.get("general"))
    fields["limit"] = _limit(content["slug"])
    return FailureCause(patterns=_patterns(content["patterns"]), **fields)


def _limit(slug: str) -> Weight:
    """Return the weight that a cause's measured precision allows at most."""
    right, wrong = (_read(_FOLDER / _PRECISION) or {}).get(slug, (0, 0))
    is_measured = right >= _FEWEST and right >= _LEAST * (right + wrong)
    return Weight.DECISIVE if is_measured else Weight.LIKELY


def _patterns(entries: list[Any]) -> tuple[Pattern, ...]:
    return tuple(map(_pattern, entries))


def _pattern(entry: str | dict[str, Any]) -> Pattern:
    content = {"regex": entry} if isinstance(entry, str) else entry
    source = content["regex"]
    while _WORD.search(source):  # words may contain names
        source = _WORD.sub(lambda name: _read(_FOLDER / _SIGNS)["words"][name[1]], source)
    ready = _as_prepared()["texts"].get(source)
    texts, *others = ready or required_texts(_compiled(source)) or ((),)
    if not texts or min(len(text.encode()) for text in texts) < _SHORTEST:
        raise ValueError(f"no text of {_SHORTEST} bytes is in every match of {entry}")
    return Pattern(
        source=source,
        texts=tuple(texts),
        others=tuple(map(tuple, others)),
        weight=Weight[content.get("weight", "decisive").upper()],
        needs=_texts(content.get("needs", [])),
        is_lasting=bool(content.get("lasting")),
    )


def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE | re.MULTILINE)


def _texts(value: str | list[str]) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise ValueError(
            f"not a string: {wrong[0]}; a string with `: ` in it has to be quoted, or below >-"
        )
    return tuple(text.strip("\n") for text in texts)
