"""The session `index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.errors import UsageError
from cuwheel.index.folder_index import write_index
from cuwheel.index.site import SiteRequest, write_site
from cuwheel.index.yanks import yank
from cuwheel.paths import ROOT, default_cache, given_path
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from cuwheel.system.console import Console


def index_parser() -> Parser:
    """What the session understands."""
    parser = new_parser(
        "index", "Write the package index of a folder of wheels, or all that a server needs."
    )
    add = parser.add_argument
    add(
        "--dist",
        action="append",
        metavar="DIR",
        help="a folder with wheels, repeatable with --to; default: dist/ in the checkout",
    )
    add("--to", metavar="DIR", help="publish: wheels, indexes and pages for people, to be served")
    add(
        "--base-url",
        default="",
        metavar="URL",
        help="with --to: where the wheels are, if not there: the files of a release, a bucket",
    )
    add(
        "--address",
        default="",
        metavar="URL",
        help="with --to: where DIR is served, for the lines to copy; default: browsers find out",
    )
    add("--yank", metavar="FILE|NAME==VERSION", help="withdraw wheels: only who pinned gets them")
    add("--reason", default="", metavar="TEXT", help="with --yank: why, for who has it pinned")
    add("--unyank", metavar="FILE|NAME==VERSION", help="take that back")
    return parser


def run_index(given: argparse.Namespace, console: Console) -> None:
    """Write the package index."""
    folders = tuple(map(given_path, given.dist)) if given.dist else (ROOT / "dist",)
    _check(given, folders)
    for name, reason in ((given.yank, given.reason), (given.unyank, None)):
        if name:
            files = [one for folder in folders for one in yank(folder, name, reason)]
            verb = "good again" if reason is None else "withdrawn"
            console.note(f"{plural(len(files), 'wheel')} {verb}: {', '.join(files)}")
    if not given.to:
        console.note(f"wrote {write_index(folders[0])}")
        return
    site = given_path(given.to)
    asked = SiteRequest(
        folders=folders,
        site=site,
        base_url=given.base_url,
        address=given.address,
        cache=default_cache(),
    )
    with console.live("index"):
        done = write_site(asked)
    console.note(
        f"{site}: {plural(done.wheels, 'wheel')}, {done.added} of them new; simple/ and "
        f"{', '.join(f'{tag}/simple/' for tag in done.cuda) or 'no index for one CUDA release'}"
    )


def _check(given: argparse.Namespace, folders: tuple[Path, ...]) -> None:
    """See that what was asked for fits together.

    Raises:
        UsageError: it doesn't, or a folder isn't there.
    """
    if missing := [folder for folder in folders if given.dist and not folder.is_dir()]:
        raise UsageError(
            f"there is no folder {missing[0]}",
            why="--dist names it, as seen from the folder in which nox was started",
            fix="name the folder that holds the wheels",
        )
    if len(folders) > 1 and not given.to:
        raise UsageError(
            "several folders have no index in common",
            why="without --to the index is written into the folder itself",
            fix="publish them together: -- --dist A --dist B --to DIR",
        )
    if (given.base_url or given.address) and not given.to:
        raise UsageError(
            "--base-url and --address are for what is served",
            why="without --to the index links the wheels beside it",
            fix="name the folder to write: -- --to DIR",
        )
    if given.yank and not given.reason:
        raise UsageError(
            "--yank needs a reason",
            why="installers show it to whoever has the wheel pinned",
            fix='say it: -- --yank NAME==VERSION --reason "crashes on sm_120"',
        )
