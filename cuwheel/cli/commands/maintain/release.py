"""The session `release`."""

from __future__ import annotations

import argparse

from cuwheel.base.caller import Caller
from cuwheel.base.errors import naming_option, suggest
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.recipe.cells import cell_ids
from cuwheel.cli.commands.maintain.index import YANK, YANK_NEEDS, check_addresses, yanks_of
from cuwheel.cli.parser import Option, Parser, new_parser
from cuwheel.cli.target_choice import folder_of
from cuwheel.publish.release.evidence import REQUIREMENTS, Requirement
from cuwheel.publish.release.plan import ReleaseRequest
from cuwheel.publish.release.release import plan_release, print_release, publish_release
from cuwheel.publish.release.upload import make_upload


def release_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "release",
        "Show what a release of the new wheels would contain; with --publish, publish it: "
        "docs/how-to/release.md.",
        {
            "--publish": "publish; without this nothing is written",
            "--dist DIR...": "a folder with wheels, repeatable; default: dist/ in the project",
            "--to DIR": "the folder to be served: releases, indexes, wheels; default: public/",
            "--upload URL|NAME": "the upload URL of an index for twine, or its name in ~/.pypirc",
            "--index URL": Option(
                "with --upload: the URL from which pip reads that index; default: simple/ "
                "below URL",
                default="",
            ),
            "--require perf,verify": Option(
                "only release wheels with a passed record of exactly their bytes",
                read=_requirements,
                default=(),
            ),
            "--given-source": "also release wheels of sources given with --source, which no recipe "
            "pins",
            "--reports DIR...": "a folder with such records, repeatable; default: reports/ and "
            "nightly/",
            "--replace-broader": "release a wheel even if one of its version serves more GPUs, "
            "Pythons or systems; installers then prefer the new one",
            "--tag TAG": Option("complete a release that was started", default=""),
            "--base-url URL": Option(
                "the releases' files are at URL/TAG/, as on GitHub: DIR only gets the new wheels",
                default="",
            ),
            "--address URL": Option("where DIR is served, for the commands to copy", default=""),
            "--work DIR": "folder of the builds, for their logs; default: work/",
            **YANK,
            "--quiet": "print the tag and the counts",
            "--verbose": "print the notes",
            "--json": "print the release as JSON to standard output",
        },
        needs={
            **YANK_NEEDS,
            ("--index", "--upload"): "it shows what the index for uploads already has",
        },
    )


def run_release(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Show what a release would contain, or publish it."""
    check_addresses(args)
    work = folder_of(args.work, caller, "work")
    reports = args.reports or (caller.project / "reports", caller.project / "nightly")
    request = ReleaseRequest(
        folders=tuple(map(caller.path, args.dist)) if args.dist else (caller.project / "dist",),
        to=folder_of(args.to, caller, "public"),
        work=work,
        reports=tuple(map(caller.path, reports)),
        required=args.require,
        cache=caller.cache,
        checkout=ROOT,
        base_url=args.base_url,
        address=args.address,
        takes_marked=args.given_source,
        replaces_broader=args.replace_broader,
        yanks=yanks_of(args),
        cells=cell_ids(load_catalogue(caller.roots)),
    )
    destination = (
        make_upload(args.upload, args.index, work / "release" / "upload.log", caller)
        if args.upload
        else None
    )
    act = publish_release if args.publish else plan_release
    with naming_option("--to", request.to):
        done = act(request, destination, console, tag=args.tag)
    if args.json:
        console.answer(done)
    else:
        print_release(done, report_terminal(), console)


def _requirements(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of `--require`, in the order of `REQUIREMENTS`."""
    names = text.split(",")
    for name in names:
        if name not in REQUIREMENTS:
            raise argparse.ArgumentTypeError(f"{name!r}: {suggest(name, REQUIREMENTS)}")
    return tuple(name for name in REQUIREMENTS if name in names)
