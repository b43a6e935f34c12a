"""The session `release`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.yank_options import add_yank_options, yanks_of
from cuwheel.errors import UsageError, naming_option, suggest
from cuwheel.paths import ROOT, default_cache, given_path, project_folder
from cuwheel.release.gate import REQUIREMENTS
from cuwheel.release.plan import ReleaseRequest
from cuwheel.release.session import (
    plan_release,
    print_outcome,
    publish_release,
    release_document,
)
from cuwheel.release.upload import make_upload
from cuwheel.system.output.terminal import report_terminal

if TYPE_CHECKING:
    from cuwheel.release.gate import Requirement
    from cuwheel.system.console import Console


def release_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "release",
        "Show what a release of the new wheels would contain; with --publish, publish it: "
        "docs/how-to/release.md.",
    )
    add = parser.add_argument
    add("--publish", action="store_true", help="publish; without this nothing is written")
    add(
        "--dist",
        action="append",
        metavar="DIR",
        help="a folder with wheels, repeatable; default: dist/ in the checkout",
    )
    add(
        "--to",
        metavar="DIR",
        help="the folder to be served: releases, indexes, wheels; default: public/",
    )
    add(
        "--upload",
        metavar="URL|NAME",
        help="the upload URL of an index for twine, or its name in ~/.pypirc",
    )
    add(
        "--index",
        default="",
        metavar="URL",
        help="with --upload: the URL from which pip reads that index; default: simple/ below URL",
    )
    add(
        "--require",
        type=_requirements,
        default=(),
        metavar="perf,verify",
        help="only release wheels with a passed record of exactly their bytes",
    )
    add(
        "--reports",
        action="append",
        metavar="DIR",
        help="a folder with such records, repeatable; default: reports/ and nightly/",
    )
    add("--tag", default="", metavar="TAG", help="complete a release that was started")
    add(
        "--base-url",
        default="",
        metavar="URL",
        help="the releases' files are at URL/TAG/, as on GitHub: DIR only gets the new wheels",
    )
    add(
        "--address", default="", metavar="URL", help="where DIR is served, for the commands to copy"
    )
    add("--work", metavar="DIR", help="folder of the builds, for their logs; default: work/")
    add_yank_options(parser)
    add_report_options(
        parser,
        quiet="print the tag and the counts",
        verbose="print the notes",
        as_json="print the release as JSON to standard output",
    )
    return parser


def run_release(given: argparse.Namespace, console: Console) -> None:
    """Say what a release would hold, or publish it."""
    if given.index and not given.upload:
        raise UsageError(
            "--index is for --upload, and nothing is to be uploaded",
            why="it shows what the index for uploads already has",
            fix="give the URL for uploads: -- --upload URL",
        )
    work = given_path(given.work) if given.work else project_folder() / "work"
    reports = given.reports or (project_folder() / "reports", project_folder() / "nightly")
    asked = ReleaseRequest(
        folders=tuple(map(given_path, given.dist)) if given.dist else (project_folder() / "dist",),
        to=given_path(given.to) if given.to else project_folder() / "public",
        work=work,
        reports=tuple(map(given_path, reports)),
        required=given.require,
        cache=default_cache(),
        checkout=ROOT,
        base_url=given.base_url,
        address=given.address,
        yanks=yanks_of(given),
    )
    destination = (
        make_upload(given.upload, given.index, work / "release" / "upload.log")
        if given.upload
        else None
    )
    act = publish_release if given.publish else plan_release
    with naming_option("--to", asked.to):
        found = act(asked, destination, console, tag=given.tag)
    if given.json:
        console.answer(release_document(found))
    else:
        print_outcome(found, report_terminal(), console)


def _requirements(text: str) -> tuple[Requirement, ...]:
    """What is required, in any order.

    Raises:
        argparse.ArgumentTypeError: something of it is none.
    """
    asked = text.split(",")
    for one in asked:
        if one not in REQUIREMENTS:
            raise argparse.ArgumentTypeError(f"{one!r}: {suggest(one, REQUIREMENTS)}")
    return tuple(name for name in REQUIREMENTS if name in asked)
