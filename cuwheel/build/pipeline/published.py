"""The published wheel of a target: its record, and the reasons why a build would make it again."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name

from cuwheel.base.formats.wheel.publication import (
    build_tag_of,
    missing_beside,
    published_sha256,
    statement_of,
)
from cuwheel.base.system.files import sha256_of_file, write_atomically
from cuwheel.base.system.regular_files import read_json
from cuwheel.build.inputs.tree import (
    SourceState,
    describe_source_change,
    read_source_state,
)
from cuwheel.build.pipeline.rebuild_key import changes, key_of, part_of_build
from cuwheel.build.pipeline.run_state import (
    FROM_SMOKE,
    KEPT_STAGES,
    has_wheel,
    is_interrupted_run,
    is_unfinished,
)
from cuwheel.build.pipeline.summary import Summary, summary_of
from cuwheel.build.recipe.link import mode_name
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.failure_record import forget_failure
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment, RepairedWheel
from cuwheel.build.workspace.serialization import read_record, to_json


@dataclass(frozen=True, kw_only=True)
class PublishedRecord:
    """Record of a published wheel.

    Attributes:
        key: its rebuild key.
        reasons: why it was built.
        date: when, in UTC; empty for one that an older cuwheel published.
        source: the source folder that it was built from; None: it was built from none.
    """

    key: dict[str, str]
    summary: Summary
    reasons: tuple[str, ...] = ()
    date: str = ""
    source: SourceState | None = None


def build_path(job: Job) -> Path:
    """Return the path of the record of a target's published wheel."""
    return job.workspace.dist / ".cuwheel" / f"{job.target.id}.json"


def read_build(job: Job) -> PublishedRecord | None:
    """Read the record of a target's published wheel; None: there is no whole one."""
    return read_record(build_path(job), PublishedRecord)


def record_build(job: Job, key: dict[str, str], reasons: tuple[str, ...]) -> Summary:
    """Write the record of a published wheel, by which the next build knows it."""
    folder = job.target.source_folder
    record = PublishedRecord(
        key=key,
        summary=summary_of(job.workspace),
        reasons=reasons,
        date=datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds"),
        source=read_source_state(folder, without=job.workspace.folders) if folder else None,
    )
    write_atomically(build_path(job), to_json(record))
    forget_failure(job.workspace.dist, job.target.id)
    return record.summary


def published_wheel(job: Job) -> RepairedWheel | None:
    """Return the newest published wheel of a target for the stages after its repair.

    Only a wheel with its statement counts, and only with the bytes that this is about. What only
    the repair of the wheel knew is empty.

    Returns:
        None: there is none.
    """
    record, project = read_build(job), canonicalize_name(job.target.project)
    wheels = (
        wheel
        for wheel in job.workspace.dist.glob("*.whl")
        if canonicalize_name(wheel.name.partition("-")[0]) == project
    )
    for wheel in sorted(wheels, key=_build_tag, reverse=True):
        sha256 = published_sha256(wheel)
        if _is_wheel_of(wheel, job.target) and sha256 == sha256_of_file(wheel):
            is_last = record is not None and record.summary.wheel == wheel.name
            external = record.summary.external if record and is_last else ()
            return RepairedWheel(
                path=wheel,
                sha256=sha256,
                size=wheel.stat().st_size,
                platform_tag=wheel.stem.rpartition("-")[2],
                external=tuple(soname for soname, _ in external),
                requires=(),
                tools=(),
                mode=mode_name(job.target.mode),
            )
    return None


def _is_wheel_of(wheel: Path, target: Target) -> bool:
    try:
        statement = read_json(statement_of(wheel)) or {}
        stated = {**statement["predicate"]["buildDefinition"]["externalParameters"]}
    except (KeyError, TypeError):
        return False
    framework = target.framework
    expected = {
        "recipe": target.recipe.name,
        "version": target.recipe.version,
        "toolkit": target.toolkit.release,
        "framework": f"{framework.name}=={framework.version}" if framework else "",
        "platform": target.platform.name,
        "link": mode_name(target.mode),
    }
    if target.recipe.python == "each":
        expected["python"] = target.python
    return all(stated.get(name, "") == value for name, value in expected.items())


def _build_tag(wheel: Path) -> int:
    try:
        return build_tag_of(wheel.name)
    except InvalidWheelFilename:
        return 0


def reasons_to_build(
    record: PublishedRecord | None, key: dict[str, str], job: Job
) -> tuple[str, ...]:
    """Return why there is something to do; empty where there isn't."""
    if reasons := outdated_reasons(record, key, job):
        return reasons
    is_interrupted = is_interrupted_run(job.workspace, key)
    return ("an earlier run was not finished",) if is_interrupted else ()


def rebuild_reasons(job: Job) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return why a build would do work now (nothing: it wouldn't), and why the last one did."""
    record = read_build(job)
    return reasons_to_build(record, key_of(job), job), record.reasons if record else ()


def outdated_reasons(
    record: PublishedRecord | None, key: dict[str, str], job: Job
) -> tuple[str, ...]:
    """Return why the published wheel isn't the one that a build would make now."""
    dist = job.workspace.dist
    if not record:
        return (f"{dist} has no record of this target",)
    if lines := changes(record.key, key):
        return tuple(_describe_change(line, record, job) for line in lines)
    wheel, sha256 = dist / record.summary.wheel, record.summary.sha256
    if not wheel.is_file():
        return (f"{wheel.name} is missing from {dist}",)
    if sha256_of_file(wheel) != sha256:
        return (f"{wheel.name} is not the wheel that was built",)
    if missing := missing_beside(wheel, sha256):
        return (f"{', '.join(missing)} in {dist} is missing, or belongs to another wheel",)
    return () if job.settings.reuse else ("--no-cache was given",)


def _describe_change(line: str, record: PublishedRecord, job: Job) -> str:
    """Return a line of `changes`; for a source folder with what has changed in it."""
    name, folder = line.partition(": ")[0], job.target.source_folder
    if name != "source" or not folder or not folder.is_dir() or not record.source:
        return line
    now = read_source_state(folder, without=job.workspace.folders)
    change = describe_source_change(record.source, now)
    return f"{name}: {change}" if change else line


def needs_smoke_only(record: PublishedRecord | None, key: dict[str, str], job: Job) -> bool:
    """Return True if the published wheel is the one that a build would make now.

    Only the smoke test has changed since, and what the stages from there on need is still there.
    """
    workspace = job.workspace
    if not record or not job.settings.reuse or is_unfinished(workspace):
        return False
    if part_of_build(record.key) != part_of_build(key) or record.key == key:
        return False
    if not all(workspace.has(name) for name in KEPT_STAGES if name not in FROM_SMOKE):
        return False
    wheel = workspace.load("repair", RepairedWheel)
    has_packages = workspace.load("environment", Environment).site_packages.is_dir()
    return has_packages and has_wheel(workspace) and wheel.sha256 == record.summary.sha256
