"""docs/reference/options.md: the sessions, and what each understands behind `--`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.dispatch import parser_of
from cuwheel.cli.reference.pages import MARK, code, page, table
from cuwheel.model.nox_sessions import VERBS

if TYPE_CHECKING:
    import argparse


_INTRO = """\
`nox -s NAME` runs a session; an installed cuwheel has them as commands. Options follow after the
session's name and `--`. Paths are relative to the folder in which nox was started. `nox -l` lists
all sessions; those not listed here take no options, except `tests`, `tests-e2e` and
`tests-nightly`, which pass theirs to pytest, `bench`, which passes them to the benchmark, and
`package` and `site`, which take a folder."""
_BUILD = ("`build-<recipe>-<toolkit>`", "Build the wheel of a recipe for a CUDA release.", "build")


def options_page() -> str:
    """The page."""
    parsers = [parser_of(one.name) for one in VERBS]
    parts = [
        "# Sessions and their options",
        MARK.format(source="model/nox_sessions.py and the parsers in cuwheel/cli/commands/"),
        _INTRO,
        table(
            ("session", "what it does", "group"),
            (_BUILD, *((code(one.name), one.summary, one.tag) for one in VERBS)),
        ),
    ]
    for parser in parsers:
        if parser.described:
            rows = [(code(_spelling(one)), _meaning(one)) for one in parser.described]
            parts += [f"## `{parser.prog}`", str(parser.description)]
            parts.append(table(("option", "meaning"), rows))
    return page(parts)


def _meaning(action: argparse.Action) -> str:
    """Its help, as argparse shows it."""
    return str(action.help).replace("%%", "%")


def _spelling(action: argparse.Action) -> str:
    """`--jobs N|auto`, `--toolchain pypi|conda|system`, `--offline`."""
    value = action.metavar or "|".join(action.choices or ())
    return " ".join([*action.option_strings, *([str(value)] if value else [])])
