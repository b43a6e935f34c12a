"""The sessions `build-…`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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
from cuwheel.system.output.documents import Schema
from cuwheel.workspace.failure_record import read_failure

if TYPE_CHECKING:
    from cuwheel.build.summary import Summary
    from cuwheel.system.console import Console
    from cuwheel.workspace.failure_record import FailureRecord
    from cuwheel.workspace.job import Job


@dataclass(frozen=True, kw_only=True)
class BuildDocument:
    """What `build --json` prints, one line for each wheel.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        state: the result; `stopped`: the build ended after the stage given with `--until`.
        wheel: the built wheel; null in any other state.
        failure: how it failed; null in any other state, or if no record could be written.
        stage: the last one that ran; empty unless it was stopped.
        reasons: with `--dry-run`, why it would be built.
        last: with `--dry-run`, why the last build ran.
    """

    SCHEMA: ClassVar[Schema] = Schema("build", "1.0")

    target: str
    state: Literal["built", "failed", "stopped", "would be built", "up to date"]
    wheel: Summary | None = None
    failure: FailureRecord | None = None
    stage: str = ""
    reasons: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StageDocument:
    """What `build --stage` prints, one line for each wheel.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        stage: the one that ran.
        record: its output for the next stage; each stage has its own format, which any release of
            cuwheel may change.
    """

    SCHEMA: ClassVar[Schema] = Schema("stage", "1.0")

    target: str
    stage: str
    record: Any


def build_parser() -> Parser:
    """What a session understands; its target stands in its name."""
    parser = new_parser(
        "build-<target>", "Build, check and publish one wheel for each requested Python."
    )
    parser.add_argument("targets", nargs="*", help=argparse.SUPPRESS)
    add_target_options(parser)
    add = parser.add_argument
    add_build_options(parser)
    add(
        "--keep-work",
        action="store_true",
        help="keep the intermediate files after a successful build",
    )
    add_container_options(parser)
    add(
        "--no-cache",
        action="store_true",
        help="build again even if nothing has changed, and compile everything",
    )
    add(
        "--build-tag",
        type=read_count,
        metavar="N",
        help="build tag of the wheel; default: none, or the next one if dist/ has a different "
        "wheel of this name",
    )
    add(
        "--replace",
        action="store_true",
        help="overwrite a published wheel of this name instead of giving the new one a build tag",
    )
    add_report_options(
        parser,
        quiet="print only warnings and errors, and the wheel's path to standard output",
        verbose="list each loaded library with its supplier, and the seconds of each stage",
        as_json="print the result for each wheel to standard output, one JSON object per line",
    )
    add("--dry-run", action="store_true", help="print what would be built and why, then stop")
    add(
        "--stage",
        choices=pipeline.STAGES,
        help="run only this stage, on the output of the one before it",
    )
    add(
        "--until",
        choices=pipeline.STAGES,
        help="stop after this stage; the next build continues from there",
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
    check_container_options(given)
    if given.container:
        return build_in_container(given, console)
    status = 0
    parts: list[tuple[Job, Summary]] = []
    for entry, tag in requested_targets(given, console):
        for job in requested_jobs(entry, tag, given, console):
            if given.dry_run or given.stage or given.until:
                _do_less(job, given, console)
            elif (made := _make(job, given, console)) is None:
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
        _preview(job, given, console)
    elif given.stage:
        record = pipeline.make_stage(given.stage, job)
        console.answer(StageDocument(target=job.target.id, stage=given.stage, record=record))
        console.print_durations()
    else:
        pipeline.make_until(given.until, job)
        if given.json:
            console.answer(BuildDocument(target=job.target.id, state="stopped", stage=given.until))
        console.print_durations()


def _preview(job: Job, given: argparse.Namespace, console: Console) -> None:
    """Say what a build would do, and why."""
    now, before = pipeline.rebuild_reasons(job)
    if given.json:
        document = BuildDocument(
            target=job.target.id,
            state="would be built" if now else "up to date",
            reasons=tuple(now),
            last=tuple(before),
        )
        console.answer(document)
        return
    console.note("a build now would run, because:" if now else "a build now would do nothing")
    for reason in now:
        console.note(f"  {reason}")
    for reason in before:
        console.note(f"the last build ran because {reason}")


def _make(job: Job, given: argparse.Namespace, console: Console) -> Summary | None:
    """Build, or a part of it; None: there is more to do."""
    name, dist = job.target.id, job.workspace.dist
    try:
        if given.part:
            return pipeline.make_part(given.part, job)
        return pipeline.make(job, keep_work=given.keep_work)
    except CuwheelError:
        if given.json:
            failure = read_failure(dist, name)
            console.answer(BuildDocument(target=name, state="failed", failure=failure))
        raise


def _tell_made(job: Job, made: Summary, given: argparse.Namespace, console: Console) -> None:
    """Say of a wheel what a person or, with `--json`, a scheduler wants to know."""
    dist = job.workspace.dist
    if given.json:
        console.answer(BuildDocument(target=job.target.id, state="built", wheel=made))
    elif given.quiet:
        print(dist / made.wheel, flush=True)  # noqa: T201 - data
    if not given.json:
        print_summary(made, dist, console)
