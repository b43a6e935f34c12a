"""The session `bump`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.commands.outdated import days
from cuwheel.cli.parser import Parser, new_parser, refuse_none
from cuwheel.locks.jobs import COOLDOWN
from cuwheel.model.catalogue import find_recipe, load_catalogue
from cuwheel.paths import project_roots
from cuwheel.updates.bump import BumpOptions, bump_recipe
from cuwheel.updates.report import print_bump
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    import argparse

    from cuwheel.system.console import Console


def bump_parser() -> Parser:
    """What the session understands."""
    parser = new_parser(
        "bump", "Take a recipe to another release of upstream: version, hash, patches, locks."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="recipes")
    add("--to", default="", metavar="V", help="the release; default: the newest with a source")
    add("--dry-run", action="store_true", help="show the change and leave all files as they are")
    add(
        "--keep-broken",
        action="store_true",
        help="go on where a patch doesn't apply any more; it stays as it is",
    )
    add(
        "--uncommitted",
        action="store_true",
        help="change files that have changes which aren't committed, too",
    )
    add(
        "--cooldown",
        type=days,
        default=COOLDOWN,
        metavar="DAYS",
        help=f"of locked packages, ignore younger releases; default: {COOLDOWN}",
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
            console.note(f"{entry.name} pins that release already: nothing to do")
        else:
            print_bump(bump, is_trial=given.dry_run)
