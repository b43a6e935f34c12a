"""The sessions `outdated` and `bump`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser, refuse_none
from cuwheel.cli.report_options import add_report_options
from cuwheel.locks.jobs import COOLDOWN
from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.paths import project_roots
from cuwheel.updates.bump import BumpOptions, bump_recipe
from cuwheel.updates.outdated import OLD_LOCK, find_updates
from cuwheel.updates.report import print_bump, print_updates
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from cuwheel.system.console import Console


def outdated_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "outdated",
        "List upstreams, frameworks, toolkits and locks that are newer than what is pinned, and "
        "whether patches apply to upstream's newest source. Updates are not an error: scripts use "
        "--json.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="recipes; default: all")
    add(
        "--days",
        type=days,
        default=OLD_LOCK,
        metavar="N",
        help=f"a lock is old after this many days; default: {OLD_LOCK}",
    )
    add_report_options(
        parser,
        quiet="print only what is newer",
        verbose="list each lock with its age",
        as_json="print JSON to standard output instead of a table",
    )
    return parser


def run_outdated(given: argparse.Namespace, console: Console) -> None:
    """Ask the index, and print what is newer."""
    entries = load_catalogue(project_roots())
    asked = [find_recipe(name, entries) for name in given.names] or list(entries)
    updates = find_updates(entries, asked, bare_workspace(console), days=given.days)
    print_updates(updates, console, as_json=given.json)


def days(text: str) -> int:
    """A number of days.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return int(text)


def bump_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "bump", "Update a recipe to another release of upstream: version, hash, patches, locks."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="recipes")
    add("--to", default="", metavar="V", help="the release; default: the newest with an sdist")
    add("--dry-run", action="store_true", help="show the changes, and change no file")
    add(
        "--keep-broken",
        action="store_true",
        help="continue if a patch no longer applies; it stays as it is",
    )
    add(
        "--uncommitted",
        action="store_true",
        help="also change files with uncommitted changes",
    )
    add(
        "--cooldown",
        type=days,
        default=COOLDOWN,
        metavar="DAYS",
        help=f"ignore younger releases of locked packages; default: {COOLDOWN}",
    )
    return parser


def run_bump(given: argparse.Namespace, console: Console) -> None:
    """Change recipes, one after the other, and print each change."""
    entries = load_catalogue(project_roots())
    refuse_none("bump", "recipe", given.names, [entry.name for entry in entries])
    options = BumpOptions(
        version=given.to,
        keeps_broken=given.keep_broken,
        takes_uncommitted=given.uncommitted,
        is_trial=given.dry_run,
        cooldown=given.cooldown,
    )
    for name in given.names:
        entry = find_recipe(name, entries)
        bump = bump_recipe(entry, options, bare_workspace(console))
        if bump is None:
            console.note(f"{entry.name} already pins that release: nothing to do")
        else:
            print_bump(bump, is_trial=given.dry_run)
