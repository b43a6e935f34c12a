"""The session `outdated`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.paths import project_roots
from cuwheel.updates.outdated import OLD_LOCK, find_updates
from cuwheel.updates.report import print_updates
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from cuwheel.system.console import Console


def outdated_parser() -> Parser:
    """What the session understands."""
    parser = new_parser(
        "outdated",
        "Say which upstream, framework, toolkit or lock is newer than what is pinned, and whether "
        "patches fit upstream's newest source. Updates are no error: a script reads --json.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="recipes; default: all")
    add(
        "--days",
        type=days,
        default=OLD_LOCK,
        metavar="N",
        help=f"a lock is old after so many days; default: {OLD_LOCK}",
    )
    add("--json", action="store_true", help="print data to standard output instead of a table")
    return parser


def run_outdated(given: argparse.Namespace, console: Console) -> None:
    """Ask the index, and print what is newer."""
    entries = load_catalogue(project_roots())
    asked = [find_recipe(name, entries) for name in given.names] or list(entries)
    updates = find_updates(entries, asked, bare_workspace(console), days=given.days)
    print_updates(updates, as_json=given.json)


def days(text: str) -> int:
    """A number of days.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number of days")
    return int(text)
