"""The sessions `build-…`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cuwheel import pipeline
from cuwheel.build.sandbox.backends import KINDS
from cuwheel.build.summary import print_summary
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.target_jobs import requested_jobs, requested_targets
from cuwheel.cli.target_options import add_target_options
from cuwheel.workspace.serialization import to_json

if TYPE_CHECKING:
    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Job


def build_parser() -> Parser:
    """What a session understands; its target stands in its name."""
    parser = new_parser(
        "build-<target>", "Build, check and publish one wheel for each Python asked for."
    )
    parser.add_argument("targets", nargs="*", help=argparse.SUPPRESS)
    add_target_options(parser)
    add = parser.add_argument
    add(
        "--jobs",
        default="auto",
        metavar="N|auto",
        help="compiles at once; auto: one for each core, started as memory allows",
    )
    add("--dist", metavar="DIR", help="folder for finished wheels; default: dist/ in the checkout")
    add("--keep-work", action="store_true", help="leave the intermediate files there after success")
    add(
        "--sandbox",
        choices=("auto", *KINDS),
        default="auto",
        help="what keeps the build from network and other files; default: bubblewrap where it is "
        "installed, else the kernel's namespaces (unshare), else none",
    )
    add(
        "--no-cache",
        action="store_true",
        help="build again although nothing has changed, and compile everything",
    )
    add("--explain-key", action="store_true", help="say what would be rebuilt and why, and stop")
    add(
        "--stage",
        choices=pipeline.STAGES,
        help="run this stage alone, on what the one before it left",
    )
    add(
        "--until",
        choices=pipeline.STAGES,
        help="stop after this stage; the next build goes on from there",
    )
    return parser


def run_build(given: argparse.Namespace, console: Console) -> None:
    """Build one wheel for each target and Python asked for."""
    for entry, tag in requested_targets(given, console):
        for job in requested_jobs(entry, tag, given, console):
            _build(job, given, console)


def _build(job: Job, given: argparse.Namespace, console: Console) -> None:
    if given.explain_key:
        now, before = pipeline.rebuild_reasons(job)
        console.note("a build now would do nothing" if not now else "a build now would run:")
        for reason in now:
            console.note(f"  {reason}")
        for reason in before:
            console.note(f"the last build ran because {reason}")
    elif given.stage:
        print(to_json(pipeline.make_stage(given.stage, job)), end="")  # noqa: T201 - data
    elif given.until:
        pipeline.make_until(given.until, job)
    else:
        print_summary(pipeline.make(job, keep_work=given.keep_work), console)
