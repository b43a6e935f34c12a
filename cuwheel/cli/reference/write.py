"""The reference pages, written from the code by `nox -s docs`; a test compares those on disk.

The text has to be the same under every Python: argparse's own help, whose form changes between
releases, isn't used.
"""

from __future__ import annotations

import argparse
import inspect
import json
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.quantities import GIB, MIB
from cuwheel.build.recipe import link, recipe, source
from cuwheel.build.recipe.nox_sessions import VERBS
from cuwheel.check.cuda import library_choice
from cuwheel.cli.dispatch import parser_of
from cuwheel.cli.parser import Parser
from cuwheel.cli.reference.addresses import addressed_pages
from cuwheel.cli.reference.pages import MARK, code, listed, page, read_docstring, table
from cuwheel.cli.reference.schemas import check_versions, schema_files, schemas_page
from cuwheel.cli.reference.toolkits_page import toolkits_page
from cuwheel.cli.reference.troubleshooting import troubleshooting
from cuwheel.publish.index.check.rules import RULES, SEVERITIES

_OPTIONS_INTRO = """\
`nox -s NAME` runs a session; an installed cuwheel has them as commands. Options follow after the
session's name and `--`. Paths are relative to the working directory. `nox -l` lists
all sessions; those not listed here take no options, except `tests`, `tests-e2e` and
`tests-nightly`, which pass theirs to pytest, `bench`, which passes them to the benchmark, and
`package` and `site`, which take a folder."""
_BUILD = ("`build-<recipe>-<toolkit>`", "Build the wheel of a recipe for a CUDA release.")
_INDEX_CHECK_INTRO = """\
`nox -s index -- --check ADDRESS|DIR` checks a package index, of any project, against these rules:
the specification "Simple repository API" (PEP 503, 592, 658, 691, 700, 714), and how pip and
uv react to violations of it. After an `error` the session exits with a status other than 0. How to
use it: [publish.md](../how-to/publish.md)."""
_RECIPE_INTRO = """\
Fields without a default are required. [CONTRIBUTING.md](../../CONTRIBUTING.md) walks through a
recipe from an empty file."""
_SOURCES = typing.get_args(source.Source)
_BUILDS = typing.get_args(recipe.Build)
_MODES = typing.get_args(link.Mode)
_DECLARATIONS = (
    recipe.Recipe,
    *_SOURCES,
    source.Resource,
    source.Patch,
    recipe.Framework,
    *_BUILDS,
    link.Link,
    *_MODES,
    recipe.Smoke,
    library_choice.LibraryPerCuda,
)


def write_documents(root: Path) -> tuple[Path, ...]:
    """Write every generated page below `root`; return their paths."""
    check_versions(root)
    pages = documents()
    for name, text in pages.items():
        write_atomically(root / name, text)
    return tuple(root / name for name in pages)


def documents() -> dict[str, str]:
    """Return every generated page by its path relative to the repository."""
    return {
        "TROUBLESHOOTING.md": troubleshooting(),
        "docs/reference/recipe.md": recipe_page(),
        "docs/reference/index-check.md": index_check_page(),
        "docs/reference/json.md": schemas_page(),
        "docs/reference/options.md": options_page(),
        "docs/reference/toolkits.md": toolkits_page(),
        **schema_files(),
        **addressed_pages(ROOT),
    }


def index_check_page() -> str:
    """Return the page."""
    rows = [
        (code(rule.code), rule.severity, rule.summary, rule.why, rule.fix)
        for severity in SEVERITIES
        for rule in RULES
        if rule.severity == severity
    ]
    return page(
        [
            "# What a check of an index finds",
            MARK.format(source="cuwheel/publish/index/check/rules.py"),
            _INDEX_CHECK_INTRO,
            table(("code", "severity", "what", "why it matters", "what to do"), rows),
        ]
    )


def options_page() -> str:
    """Return the page."""
    parsers = [parser_of(verb.name) for verb in VERBS]
    of_build = _option_rows(parser_of("build"))
    parts = [
        "# Sessions and their options",
        MARK.format(source="build/recipe/nox_sessions.py and the parsers in cuwheel/cli/commands/"),
        _OPTIONS_INTRO,
        *_sessions_by_group(),
    ]
    for parser in parsers:
        if not parser.described:
            continue
        rows = _option_rows(parser)
        shared = [] if rows == of_build else [row for row in rows if row in of_build]
        parts += [f"## `{parser.prog}`", str(parser.description)]
        if own := [row for row in rows if row not in shared]:
            parts.append(listed(own))
        if shared:
            names = ", ".join(code(name.strip("`").split()[0]) for name, _ in shared)
            parts.append(f"As for [a build](#nox--s-build-target---): {names}.")
    return page(parts)


def _sessions_by_group() -> Iterator[str]:
    """Yield the sessions of each group below its name."""
    for tag in dict.fromkeys(verb.tag for verb in VERBS):
        verbs = [(code(verb.name), verb.summary) for verb in VERBS if verb.tag == tag]
        yield f"Group `{tag}`:"
        yield listed([_BUILD, *verbs] if tag == "build" else verbs)


def _option_rows(parser: Parser) -> list[tuple[str, str]]:
    return [
        (code(_spelling(action)), str(action.help).replace("%%", "%"))
        for action in parser.described
    ]


def _spelling(action: argparse.Action) -> str:
    """Return `--jobs N|auto`, `--toolchain pypi|conda|system`, `--offline`."""
    value = action.metavar or "|".join(action.choices or ())
    return " ".join([*action.option_strings, *([str(value)] if value else [])])


def recipe_page() -> str:
    """Return the page."""
    parts = [
        "# What a recipe can say",
        MARK.format(
            source="the docstrings in cuwheel/build/recipe/recipe.py, source.py and link.py"
        ),
        read_docstring(recipe).text,
        ". ".join(
            f"`{name}` is one of {_names(kinds)}"
            for name, kinds in (("Source", _SOURCES), ("Build", _BUILDS), ("Mode", _MODES))
        )
        + ".",
        _RECIPE_INTRO,
    ]
    for declaration in _DECLARATIONS:
        parts += [
            f"## {declaration.__name__}",
            read_docstring(declaration).text,
            _fields(declaration),
        ]
    return page(parts)


def _fields(declaration: type) -> str:
    meanings = read_docstring(declaration).entries
    rows = []
    for name, parameter in inspect.signature(declaration).parameters.items():
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        kind, default = code(str(parameter.annotation)), _default(parameter.default)
        form = f"{kind}, by default {default}" if default else kind
        rows.append((f"{code(f'{star}{name}')} ({form})", meanings[name]))
    return listed(rows)


def _default(value: Any) -> str:
    """Return a default as in a recipe; sizes in the unit that gives a whole number.

    A field that takes any mapping starts with an empty one, from a factory.
    """
    if value is inspect.Parameter.empty:
        return ""
    if repr(value) == "<factory>":
        return code("{}")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value // MIB} MiB" if value % GIB else f"{value // GIB} GiB"
    return code(json.dumps(value) if isinstance(value, str) else repr(value))


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(f"[`{kind.__name__}`](#{kind.__name__.lower()})" for kind in kinds)
