"""The failure catalogue: what is known to go wrong, read from `cuwheel/explain/failures/*.yaml`.

The files hold data, no logic, and are reviewed like code. docs/how-to/failure-catalogue.md tells
how to add a case; TROUBLESHOOTING.md is written from them.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.explain.literals import required_texts
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping


_FOLDER = Path(__file__).parent / "failures"
# Of an installed cuwheel: what `prepared` made when its wheel was built. To read YAML and to find
# the texts of 1,700 patterns takes a second.
_PREPARED = Path(__file__).with_name("failures.json")
_SIGNS = "signs.yaml"  # what is no cause: successes, failures in general, facts, tables
_WORD = re.compile("<<([a-z-]+)>>")  # a part of patterns that `words` of signs.yaml holds
_SHORTEST = 4  # characters of a text to search for


class Weight(IntEnum):
    """How much a line says."""

    PERHAPS = 0  # no pattern fits; the words resemble this cause's
    HINT = 1  # stands in healthy logs too; counts where nothing else explains a failure
    LIKELY = 2  # an error that has this cause nearly always, or names it in general words
    DECISIVE = 3  # an error that has this cause alone


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """What a tool prints.

    Attributes:
        source: of a regular expression, which is searched for in a line and the two behind it,
            case ignored; it has to begin in the first of them.
        texts: one of them stands in every match, in lower case.
        others: sets of further texts, of each of which one stands there too.
        weight: how much a match says.
        needs: what has to be so of the whole log besides: a sign, `not` a sign, or a condition on
            a fact (`cuda >= 13`).
        is_lasting: a success behind it doesn't overcome it: pip's complaint of a conflict stands
            in front of its "Successfully installed".
    """

    source: str
    texts: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()
    weight: Weight = Weight.DECISIVE
    needs: tuple[str, ...] = ()
    is_lasting: bool = False

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """Compiled, where a line has its texts: few of them are met in a log."""
        return _compiled(self.source)


@dataclass(frozen=True, kw_only=True)
class FailureCause:
    """Something that goes wrong, and what to do about it.

    Attributes:
        slug: its name, and its anchor in TROUBLESHOOTING.md.
        stage: where it shows: configure, compile, device-link, link, package, repair, install,
            import or runtime.
        title: one line.
        patterns: what tools print then.
        why: the cause, in templates: the first whose names are all known is taken.
        fix: what to do, likewise.
        confirm: a command or a look that shows whether it is so.
        links: of the primary sources.
        brings: slugs of what else is printed because of it.
        akin: slugs that are easily taken for it.
        examples: logs that have this cause.
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


@dataclass(frozen=True, kw_only=True)
class Group:
    """Causes that a reader would look for together.

    Attributes:
        title: of the section in TROUBLESHOOTING.md.
        about: one sentence.
        causes: the commonest first.
    """

    title: str
    about: str
    causes: tuple[FailureCause, ...]


@dataclass(frozen=True, kw_only=True)
class Signs:
    """What a log says beside causes.

    Attributes:
        successes: lines after which all before them has been overcome.
        failures: lines that say that something failed, but not what.
        facts: patterns whose named groups are facts of the whole log.
        named: sign → patterns; a cause's pattern may need one.
        tables: name → fact that it is looked up by, and value by value.
    """

    successes: tuple[Pattern, ...]
    failures: tuple[Pattern, ...]
    facts: tuple[Pattern, ...]
    named: Mapping[str, tuple[Pattern, ...]]
    tables: Mapping[str, tuple[str, Mapping[str, str]]]


@functools.cache
def groups() -> tuple[Group, ...]:
    """The catalogue, as it is shown."""
    made = [_read(path) for path in sorted(_FOLDER.glob("*.yaml")) if path.name != _SIGNS]
    ordered = sorted(made, key=lambda content: content["order"])
    return tuple(
        Group(
            title=content["title"],
            about=content["about"],
            causes=tuple(_cause(one) for one in content["causes"]),
        )
        for content in ordered
    )


@functools.cache
def causes() -> Mapping[str, FailureCause]:
    """Slug → cause."""
    return {one.slug: one for group in groups() for one in group.causes}


@functools.cache
def signs() -> Signs:
    """What a log says beside causes."""
    content = _read(_FOLDER / _SIGNS)
    return Signs(
        successes=_patterns(content["successes"]),
        failures=_patterns(content["failures"]),
        facts=_patterns(content["facts"]),
        named={name: _patterns(given) for name, given in content["signs"].items()},
        tables={
            name: (given["by"], {str(key): str(value) for key, value in given["values"].items()})
            for name, given in content["tables"].items()
        },
    )


def prepared() -> str:
    """What the files say, and the texts of their patterns, as JSON for a wheel of cuwheel.

    Raises:
        ValueError: a file isn't as it has to be.
    """
    listed = [one.patterns for one in causes().values()]
    listed += [signs().successes, signs().failures, signs().facts, *signs().named.values()]
    found = {
        "files": {path.name: _read(path) for path in sorted(_FOLDER.glob("*.yaml"))},
        "texts": {one.source: (one.texts, *one.others) for some in listed for one in some},
    }
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


@functools.cache
def _as_prepared() -> dict[str, Any]:
    """What was prepared; of a checkout, nothing."""
    if not _PREPARED.is_file():
        return {"files": {}, "texts": {}}
    found: dict[str, Any] = json.loads(read_text(_PREPARED))
    return found


def _read(path: Path) -> Any:
    if ready := _as_prepared()["files"].get(path.name):
        return ready
    import yaml  # noqa: PLC0415 - what was prepared needs none

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it was built
    return yaml.load(read_text(path), Loader=loader)  # noqa: S506 - both are safe loaders


def _cause(content: dict[str, Any]) -> FailureCause:
    known = set(FailureCause.__dataclass_fields__)
    if unknown := sorted(set(content) - known):
        raise ValueError(f"{content.get('slug')}: unknown fields: {', '.join(unknown)}")
    texts = {"slug", "stage", "title", "confirm"}
    given: dict[str, Any] = {name: content[name].strip() for name in texts}
    for name in known - texts - {"patterns"}:
        given[name] = _texts(content.get(name, []))
    return FailureCause(patterns=_patterns(content["patterns"]), **given)


def _patterns(given: list[Any]) -> tuple[Pattern, ...]:
    return tuple(_pattern(one) for one in given)


def _pattern(given: str | dict[str, Any]) -> Pattern:
    content = {"regex": given} if isinstance(given, str) else given
    source = _expanded(content["regex"])
    ready = _as_prepared()["texts"].get(source)
    texts, *others = ready or required_texts(_compiled(source)) or ((),)
    if not texts or min(map(len, texts)) < _SHORTEST:
        raise ValueError(f"no text of {_SHORTEST} characters is in every match of {given}")
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


def _expanded(regex: str) -> str:
    """With words in place of their names; words may hold words."""
    while _WORD.search(regex):
        regex = _WORD.sub(lambda found: _words()[found[1]], regex)
    return regex


@functools.cache
def _words() -> dict[str, str]:
    return dict(_read(_FOLDER / _SIGNS)["words"])


def _texts(given: str | list[str]) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if wrong := [one for one in texts if not isinstance(one, str)]:
        raise ValueError(
            f"not a string: {wrong[0]}; a string with `: ` in it has to be quoted, or below >-"
        )
    return tuple(one.strip("\n") for one in texts)
