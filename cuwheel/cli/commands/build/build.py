"""The sessions `build-…`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from cuwheel import pipeline
from cuwheel.build.summary import print_summary
from cuwheel.cli.container_build import (
    PART_OPTION,
    UNFINISHED,
    add_container_options,
    build_in_container,
    check_container_options,
)
from cuwheel.cli.parser import Parser, new_parser, read_count
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_jobs import requested_jobs, requested_targets
from cuwheel.cli.target_options import add_build_options, add_target_options
from cuwheel.errors import CuwheelError
from cuwheel.workspace.failure_record import read_failure
from cuwheel.workspace.serialization import to_json

if TYPE_CHECKING:
    from cuwheel.build.summary import Summary
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
    add_container_options(parser)
    add(
        "--no-cache",
        action="store_true",
        help="build again although nothing has changed, and compile everything",
    )
    add(
        "--build-tag",
        type=read_count,
        metavar="N",
        help="build tag of the wheel; default: none, or the next where dist/ has other bytes",
    )
    add(
        "--replace",
        action="store_true",
        help="overwrite a published wheel of this name, instead of giving the new one a build tag",
    )
    add_report_options(
        parser,
        quiet="print warnings, errors, and to standard output the wheel's path",
        verbose="list each library that was loaded and who supplied it, and the seconds of each "
        "stage",
        as_json="print what became of each wheel to standard output, one JSON object a line",
    )
    add("--dry-run", action="store_true", help="say what would be built and why, and stop")
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
    # Of the cuwheel in a container: as --until, but a wheel that is up to date stays as it is.
    add(PART_OPTION, choices=pipeline.STAGES, help=argparse.SUPPRESS)
    return parser


def run_build(given: argparse.Namespace, console: Console) -> int:
    """Build one wheel for each target and Python asked for.

    Returns:
        0, or `UNFINISHED` where a part of a build was asked for and there is more to do.

    Raises:
        UsageError: options don't go together.
        CuwheelError: of the build.
    """
    if given.container:
        return build_in_container(given, console)
    check_container_options(given)
    status = 0
    parts: list[tuple[Job, Summary]] = []
    for entry, tag in requested_targets(given, console):
        for job in requested_jobs(entry, tag, given, console):
            if given.dry_run or given.stage or given.until:
                _do_less(job, given, console)
            elif (made := _make(job, given)) is None:
                status = UNFINISHED  # the part after this one tells of all wheels
            elif given.part:
                parts.append((job, made))
            else:
                _tell_made(job, made, given, console)
    for job, made in () if status else parts:
        _tell_made(job, made, given, console)
    return status


def _do_less(job: Job, given: argparse.Namespace, console: Console) -> None:
    """What options ask for that stop a build early."""
    if given.dry_run:
        _foretell(job, given, console)
    elif given.stage:
        print(to_json(pipeline.make_stage(given.stage, job)), end="")  # noqa: T201 - data
        console.tell_durations()
    else:
        pipeline.make_until(given.until, job)
        if given.json:
            _print_line({"target": job.target.id, "state": "stopped", "stage": given.until})
        console.tell_durations()


def _foretell(job: Job, given: argparse.Namespace, console: Console) -> None:
    """Say what a build would do, and why."""
    now, before = pipeline.rebuild_reasons(job)
    if given.json:
        state = "would be built" if now else "up to date"
        _print_line({"target": job.target.id, "state": state, "reasons": now, "last": before})
        return
    console.note("a build now would run, because:" if now else "a build now would do nothing")
    for reason in now:
        console.note(f"  {reason}")
    for reason in before:
        console.note(f"the last build ran because {reason}")


def _print_line(said: dict[str, Any]) -> None:
    """One JSON object, for a scheduler."""
    print(json.dumps(said), flush=True)  # noqa: T201 - data


def _make(job: Job, given: argparse.Namespace) -> Summary | None:
    """Build, or a part of it; None: there is more to do."""
    name, dist = job.target.id, job.workspace.dist
    try:
        if given.part:
            return pipeline.make_part(given.part, job)
        return pipeline.make(job, keep_work=given.keep_work)
    except CuwheelError:
        if given.json:
            failure = read_failure(dist, name)
            said = dataclasses.asdict(failure) if failure else {}
            _print_line({"target": name, "state": "failed", **said})
        raise


def _tell_made(job: Job, made: Summary, given: argparse.Namespace, console: Console) -> None:
    """Say of a wheel what a person or, with `--json`, a scheduler wants to know."""
    dist = job.workspace.dist
    if given.json:
        _print_line({"target": job.target.id, "state": "built", **dataclasses.asdict(made)})
    elif given.quiet:
        print(dist / made.wheel, flush=True)  # noqa: T201 - data
    if not given.json:
        print_summary(made, dist, console)
