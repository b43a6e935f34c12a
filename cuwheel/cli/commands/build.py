"""The sessions of a target's build: `build-…`, `profile` of its compiles, `smoke` of its wheel."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from cuwheel.base.caller import Caller
from cuwheel.base.errors import CuwheelError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.quantities import plural, show_time
from cuwheel.build.compile.events import EVENTS_LOG, read_events
from cuwheel.build.pipeline import pipeline
from cuwheel.build.pipeline.build_needs import BuildNeeds, build_needs
from cuwheel.build.pipeline.published import read_build, rebuild_reasons
from cuwheel.build.pipeline.run_state import PROFILE
from cuwheel.build.pipeline.summary import Summary, print_summary
from cuwheel.build.workspace.failure_record import FailureRecord, failure_of, read_failure
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import STAGES, ShardResult, SmokeResult
from cuwheel.build.workspace.request import OF_RUN, OF_TARGET, Shard
from cuwheel.cli.container_build import CONTAINER_NEEDS, UNFINISHED, build_in_container
from cuwheel.cli.parser import JSON_TEXT, Parser, existing, new_parser
from cuwheel.cli.target_choice import (
    TARGETS,
    build_options,
    named_targets,
    request_of,
    requested_jobs,
    requested_targets,
)
from cuwheel.lab.profile.report import print_profile, write_profile


@dataclass(frozen=True, kw_only=True)
class BuildDocument:
    """What `build --json` prints, one line for each wheel.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        state: the result; `compiled`: a shard has compiled its share; `stopped`: the build ended
            after the stage given with `--until`.
        wheel: the built wheel; null in any other state.
        failure: how it failed; null in any other state.
        stage: the last one that ran; empty unless it was stopped.
        shard: with `--shard`, what it did; null in any other state than `compiled`.
        reasons: with `--dry-run`, why it would be built.
        last: with `--dry-run`, why the last build ran.
        needs: with `--dry-run`, what the build would take; null where nothing would be built.
    """

    SCHEMA: ClassVar[Schema] = Schema("build", "1.2")

    target: str
    state: Literal["built", "compiled", "failed", "stopped", "would be built", "up to date"]
    wheel: Summary | None = None
    failure: FailureRecord | None = None
    stage: str = ""
    shard: ShardResult | None = None
    reasons: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    needs: BuildNeeds | None = None


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


@dataclass(frozen=True, kw_only=True)
class SmokeDocument:
    """What `smoke --json` prints, one line for each target.

    Attributes:
        target: `causal-conv1d-130-cp312-torch2.11`.
        smoke: the result.
    """

    SCHEMA: ClassVar[Schema] = Schema("smoke", "1.1")

    target: str
    smoke: SmokeResult


def build_parser() -> Parser:
    """Return the parser of the sessions; their names contain the target."""
    return new_parser(
        "build-<target>",
        "Build, check and publish one wheel for each requested Python.",
        {
            "targets TARGET*": argparse.SUPPRESS,
            **build_options(*OF_TARGET, *OF_RUN, "keep_work", "container", "container_engine"),
            **build_options("no_cache", "build_tag", "replace", "replace_broader"),
            "--quiet": "print only warnings and errors, and the wheel's path to standard output",
            "--verbose": "list each loaded library with its supplier, and the seconds of each "
            "stage",
            "--json": "print the result for each wheel to standard output, one JSON object per "
            "line",
            **build_options("shard", "dry_run", "stage", "until", "part"),
        },
        needs=CONTAINER_NEEDS,
        excludes={
            ("--stage", "--until"): "one runs a single stage, the other all stages up to one",
            ("--shard", "--no-cache"): "the compile cache is where a shard leaves its objects",
            **{
                ("--shard", other): "a shard runs the stages up to preflight, then its compiles"
                for other in ("--stage", "--until", "--dry-run")
            },
            ("--shard", "--container"): "in a container objects depend on the work folder, and "
            "each shard has another one",
        },
    )


def run_build(args: argparse.Namespace, console: Console, caller: Caller) -> int:
    """Build one wheel for each target and Python; return 0, or `UNFINISHED` after a part."""
    request = request_of(args, caller)
    if request.container:
        return build_in_container(request, console, caller)
    status = 0
    parts: list[tuple[Job, Summary]] = []
    for entry, tag, own in requested_targets(request, console, caller):
        for job in requested_jobs(entry, tag, own, console, caller):
            if request.shard:
                _compile_shard(job, request.shard, console)
            elif request.dry_run or request.stage or request.until:
                _do_less(job, console)
            elif (summary := _make(job, console)) is None:
                status = UNFINISHED  # the last part prints all wheels
            elif request.part:
                parts.append((job, summary))
            else:
                _print_made(job, summary, console)
    for job, summary in () if status else parts:
        _print_made(job, summary, console)
    return status


def _do_less(job: Job, console: Console) -> None:
    request, name = job.settings, job.target.id
    if request.dry_run:
        _preview(job, console)
    elif request.stage:
        record = pipeline.run_stage(request.stage, job)
        console.answer(StageDocument(target=name, stage=request.stage, record=record))
        console.print_durations()
    elif request.until:
        pipeline.make(job, last=request.until)
        console.note(f"stopped after {request.until}; the work folder is {job.workspace.work}")
        if request.json:
            console.answer(BuildDocument(target=name, state="stopped", stage=request.until))
        console.print_durations()


def _compile_shard(job: Job, shard: Shard, console: Console) -> None:
    result = pipeline.compile_shard(job, shard)
    if job.settings.json:
        console.answer(BuildDocument(target=job.target.id, state="compiled", shard=result))
    elif job.settings.quiet:
        return
    console.note(
        f"shard {result.shard} of {result.count}: compiled {plural(result.compiled, 'unit')} in "
        f"{show_time(result.seconds)} of work, found {result.hits} in the compile cache, left "
        f"{result.left} to the others; plan {result.plan}"
    )
    if not result.compiled + result.hits:
        console.note("there are more shards than units: this one had nothing to do")
    name = job.target.name
    console.note(f"when all shards have ended: `nox -s build-{name}` links and publishes the wheel")
    console.print_durations()


def _preview(job: Job, console: Console) -> None:
    now, before = rebuild_reasons(job)
    needs = build_needs(job) if now else None
    if job.settings.json:
        document = BuildDocument(
            target=job.target.id,
            state="would be built" if now else "up to date",
            reasons=tuple(now),
            last=tuple(before),
            needs=needs,
        )
        console.answer(document)
        return
    console.note("a build now would run, because:" if now else "a build now would do nothing")
    for line in (*now, *(needs.lines() if needs else ())):
        console.note(f"  {line}")
    for reason in before:
        console.note(f"the last build ran because {reason}")


def _make(job: Job, console: Console) -> Summary | None:
    """Build, or run a part of a build; return None if others follow."""
    name, dist = job.target.id, job.workspace.dist
    try:
        return pipeline.make(job, last=job.settings.part or STAGES[-1])
    except CuwheelError as error:
        if job.settings.json:
            recorded = read_failure(dist, name)
            is_this = recorded is not None and recorded.what == error.what
            failure = recorded if is_this else failure_of(error)
            console.answer(BuildDocument(target=name, state="failed", failure=failure))
        raise


def _print_made(job: Job, summary: Summary, console: Console) -> None:
    dist = job.workspace.dist
    if job.settings.json:
        console.answer(BuildDocument(target=job.target.id, state="built", wheel=summary))
    elif job.settings.quiet:
        print(dist / summary.wheel, flush=True)  # noqa: T201 - data
    if not job.settings.json:
        print_summary(summary, Path(job.workspace.caller.shown(dist)), console)


def profile_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "profile",
        "Show how the last build used time and memory.",
        {
            **TARGETS,
            **build_options(*OF_TARGET, *OF_RUN),
            "--quiet": "print only the paths of picture and trace",
            "--verbose": "list every compile, not only the slowest",
            "--json": JSON_TEXT,
        },
    )


def run_profile(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Show how the last build used its time; compile first if there was none."""
    for entry, tag in named_targets("profile", args.targets, caller):
        for job in requested_jobs(entry, tag, request_of(args, caller), console, caller):
            _profile(job, console)


def _profile(job: Job, console: Console) -> None:
    target, workspace = job.target, job.workspace
    log = workspace.log_folder / EVENTS_LOG
    if not log.is_file() and rebuild_reasons(job)[0]:
        pipeline.make(job, last="build")  # publishes nothing; the next build goes on
    if not log.is_file():
        raise UsageError(
            f"there is no record of the compiles of {target.id}",
            why=f"its wheel is up to date or nothing was compiled, and {log} doesn't exist",
            fix=f"nox -s build-{target.name} -- --no-cache, then run this again",
        )
    record = read_build(job)
    stages = record.summary.durations if record else ()
    profile = write_profile(read_events(log), workspace.work / PROFILE, target.id, stages)
    if job.settings.json:
        console.answer(profile)
    else:
        print_profile(profile, report_terminal(), console)


def smoke_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "smoke",
        "Install the published wheel with its declared requirements, and import it.",
        {
            **TARGETS,
            **build_options(*OF_TARGET, *(name for name in OF_RUN if name != "jobs")),
            "--quiet": "print only warnings and errors",
            "--verbose": "list each loaded library with its supplier",
            "--json": "print the results to standard output, one JSON object per line",
        },
    )


def run_smoke(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Run the stage `smoke` on the wheel of each target."""
    request = request_of(args, caller, stage="smoke")
    if request.dist:
        fix = (
            "give the folder with the wheel, or leave out --dist: without it, the wheel in dist/ "
            "or in the work folder is tried"
        )
        existing(request.dist, "--dist", fix, is_folder=True)
    for entry, tag in named_targets("smoke", request.targets, caller):
        for job in requested_jobs(entry, tag, request, console, caller):
            result = pipeline.run_stage("smoke", job)
            if request.json:
                console.answer(SmokeDocument(target=job.target.id, smoke=result))
            console.print_durations()
