"""The sessions `build-…`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from cuwheel import pipeline
from cuwheel.build.summary import print_summary
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.target_jobs import requested_jobs, requested_targets
from cuwheel.cli.target_options import add_build_options, add_target_options
from cuwheel.errors import CuwheelError
from cuwheel.workspace.failure_record import read_failure
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
    add_build_options(parser)
    add("--keep-work", action="store_true", help="leave the intermediate files there after success")
    add(
        "--no-cache",
        action="store_true",
        help="build again although nothing has changed, and compile everything",
    )
    add(
        "--json",
        action="store_true",
        help="print what became of each wheel to standard output, one JSON object a line",
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
    elif given.json:
        _build_for_program(job, keep_work=given.keep_work)
    else:
        print_summary(pipeline.make(job, keep_work=given.keep_work), console)


def _build_for_program(job: Job, *, keep_work: bool) -> None:
    """Build, and print what a scheduler wants to know; an error is raised as ever."""
    name, dist = job.target.id, job.workspace.dist
    try:
        made = dataclasses.asdict(pipeline.make(job, keep_work=keep_work))
    except CuwheelError:
        failure = read_failure(dist, name)
        said = dataclasses.asdict(failure) if failure else {}
        print(json.dumps({"target": name, "state": "failed", **said}), flush=True)  # noqa: T201 - data
        raise
    print(json.dumps({"target": name, "state": "built", **made}), flush=True)  # noqa: T201 - data
