"""docs/reference/options.md: what each session understands behind `--`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.dispatch import parser_of
from cuwheel.cli.reference.pages import MARK, code, page, table
from cuwheel.model.nox_sessions import VERBS

if TYPE_CHECKING:
    import argparse


_INTRO = """\
Options stand behind `--`, after the session's name. Paths are relative to the folder in which nox
was started. `nox -l` lists all sessions; those that aren't here take no options, but for `tests`,
`tests-e2e` and `tests-nightly`, which hand theirs to pytest, and `bench`, to what it measures."""


def options_page() -> str:
    """The page."""
    parsers = [parser_of(one.name) for one in VERBS]
    parts = [
        "# Options of the sessions",
        MARK.format(source="the parsers in cuwheel/cli/commands/"),
        _INTRO,
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
