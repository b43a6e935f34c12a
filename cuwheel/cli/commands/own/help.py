"""`cuwheel help`: the commands, and what can be built here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.model.catalogue import load_catalogue, target_names
from cuwheel.model.nox_sessions import OF_CHECKOUT, VERBS, sessions_of
from cuwheel.paths import find_project, is_checkout, project_roots

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cuwheel.system.console import Console

_TITLES = {
    "report": "Inspect (needs no project)",
    "build": "Build",
    "target": "A built wheel, or any other",
    "maintain": "Maintain a project",
}
# What the console script has and nox doesn't.
_OWN = {
    "init": "Make a project in a folder, with a first recipe: DIR.",
    "completion": "Print the completion script of a shell: bash|zsh|fish.",
}
_WIDTH = 14  # characters of the names' column


def help_parser() -> Parser:
    """The command line of the command."""
    parser = new_parser("help", "List the commands, and what can be built here.")
    parser.add_argument(
        "--targets", action="store_true", help="print only the names of what can be built here"
    )
    return parser


def run_help(given: argparse.Namespace, _console: Console) -> None:
    """Print the commands by what they are for, then the project's targets."""
    lines = target_names(load_catalogue(project_roots())) if given.targets else _lines()
    print(*lines, sep="\n")  # noqa: T201 - that's the answer


def _lines() -> Iterator[str]:
    yield "usage: cuwheel COMMAND [ARGUMENTS]; `cuwheel COMMAND --help` shows its options"
    for tag, title in _TITLES.items():
        yield from ("", title)
        for verb in VERBS:
            if verb.tag == tag and (is_checkout() or verb.name not in OF_CHECKOUT):
                yield f"  {verb.name:{_WIDTH}}{_plain(verb.summary)}"
    yield from (f"  {name:{_WIDTH}}{text}" for name, text in _OWN.items())
    yield ""
    yield from _targets()


def _targets() -> Iterator[str]:
    entries = load_catalogue(project_roots())
    builds = [one for one in sessions_of(entries) if one.tag == "build" and len(one.command) > 1]
    if not builds:
        here = find_project()
        yield (
            f"{here} has no recipe yet"
            if here
            else "There is no project here: `cuwheel init` makes one"
        )
        return
    yield "What `cuwheel build` makes here"
    width = max(len(one.command[1]) for one in builds) + 2
    yield from (f"  {one.command[1]:{width}}{one.summary}" for one in builds)


def _plain(summary: str) -> str:
    """A session's summary without nox's `--`."""
    return re.sub(r"(?<=[ \[])-- ", "", summary)
