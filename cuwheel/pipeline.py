"""The whole way from a target to a published wheel: which stages, in which order, and when."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cuwheel.build.rebuild_key import changes, digest_of_key, key_of
from cuwheel.build.summary import Summary
from cuwheel.system.files import (
    file_lock,
    naming_full_disk,
    remove_parts,
    remove_tree,
    sha256_of_file,
    write_atomically,
)
from cuwheel.workspace.records import Audit, BuiltWheel, IndexedWheel, RepairedWheel
from cuwheel.workspace.serialization import from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


# The source comes first: it is small, and the likeliest to be out of reach or not as pinned.
STAGES = (
    "source",
    "patch",
    "toolchain",
    "environment",
    "preflight",
    "build",
    "repair",
    "audit",
    "smoke",
    "provenance",
    "index",
)

# Cheap, and about shared folders or the machine: they run each time. What the others made is kept
# when a run of the same key was interrupted.
_EACH_TIME = ("toolchain", "environment", "preflight", "provenance", "index")

# What stays of the work folder after success: enough to smoke, audit or index the wheel again.
_KEPT_STAGES = ("toolchain", "environment", "preflight", "build", "repair", "audit", "smoke")
PROFILE = "profile"  # folder of the work folder
_KEPT_FOLDERS = ("stages", "logs", PROFILE)


def make(job: Job, *, keep_work: bool) -> Summary:
    """Build, check and publish one wheel; do nothing when it is there and nothing has changed.

    Two of these on one target wait for each other. A run that was killed is taken up after its
    last complete stage, unless something has changed since.

    Args:
        job: what to build, and where.
        keep_work: leave all of the work folder after success.

    Raises:
        CuwheelError: of the stage that failed; the work folder is kept.
    """
    workspace = job.workspace
    with _exclusive(job):
        # Of other targets too, which may never be built again.
        for folder in (workspace.dist, _record(job).parent):
            remove_parts(folder)
        key = key_of(job)
        record = _read_record(job)
        reasons = _reasons(record, key, job) or _unfinished(workspace, key)
        if not reasons:
            workspace.console.note(f"{record['summary']['wheel']} is up to date: nothing to do")
            if _is_unfinished(workspace) and not keep_work:
                _clear(workspace)
            return from_json(Summary, record["summary"])
        for reason in reasons:
            workspace.console.note(f"building, because {reason}")
        _run_stages(STAGES, job, key)
        # Whatever is kept here from now on is of a finished run: no later one takes it up.
        (workspace.work / "key").unlink()
        summary = _summarise(workspace)
        written = {"key": key, "summary": dataclasses.asdict(summary), "reasons": reasons}
        write_atomically(_record(job), json.dumps(written, indent=2) + "\n")
        if not keep_work:
            _tidy(workspace)
    return summary


def make_stage(name: str, job: Job) -> Any:
    """Run one stage on what the stages before it left in the work folder, and return its record.

    Raises:
        StageOrderError: one of them has left nothing.
        CuwheelError: of the stage.
    """
    workspace = job.workspace
    with _exclusive(job), naming_full_disk(workspace.work), workspace.console.stage(name):
        mark = workspace.work / "key"
        if _is_unfinished(workspace) and mark.read_text() != digest_of_key(key_of(job)):
            mark.unlink()  # what this leaves is of another target than the interrupted run's
        record = _stage(name)(job)
        workspace.save(name, record)
    return record


def make_until(last: str, job: Job) -> None:
    """Run the stages up to one and stop; the next build goes on from there.

    Args:
        last: the stage.
        job: what to build, and where.

    Raises:
        CuwheelError: of the stage that failed.
    """
    with _exclusive(job):
        _run_stages(STAGES[: STAGES.index(last) + 1], job, key_of(job))
    job.workspace.console.note(f"stopped after {last}; the work folder is {job.workspace.work}")


def rebuild_reasons(job: Job) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Why a build would do work now (nothing: it wouldn't), and why the last one did."""
    record = _read_record(job)
    return _reasons(record, key_of(job), job), tuple(record.get("reasons", ()))


def _is_unfinished(workspace: Workspace) -> bool:
    return (workspace.work / "key").is_file()


def _unfinished(workspace: Workspace, key: dict[str, str]) -> tuple[str, ...]:
    """A reason to go on, where an earlier run of this very key left its work half done."""
    mark = workspace.work / "key"
    is_ours = _is_unfinished(workspace) and mark.read_text() == digest_of_key(key)
    return ("an earlier run was not finished",) if is_ours and not workspace.has("index") else ()


def _clear(workspace: Workspace) -> None:
    """Tidy up after a run that was killed after its last stage, or was about something else."""
    if workspace.has("index"):
        _tidy(workspace)
    else:
        remove_tree(workspace.work)


def _exclusive(job: Job) -> Any:
    workspace = job.workspace

    def tell() -> None:
        workspace.console.note(f"another cuwheel is building {job.target.id}; waiting for it")

    return file_lock(workspace.work.with_name(f"{workspace.work.name}.lock"), on_wait=tell)


def _reasons(record: dict[str, Any], key: dict[str, str], job: Job) -> tuple[str, ...]:
    workspace = job.workspace
    if not record:
        return (f"{workspace.dist} holds no record of this target",)
    if found := changes(record["key"], key):
        return found
    wheel = workspace.dist / record["summary"]["wheel"]
    if not wheel.is_file():
        return (f"{wheel.name} is gone from {workspace.dist}",)
    if sha256_of_file(wheel) != record["summary"]["sha256"]:
        return (f"{wheel.name} is not the file that was built",)
    beside = (wheel.with_name(f"{wheel.name}.provenance.json"), workspace.dist / "simple")
    if gone := [path.name for path in beside if not path.exists()]:
        return (f"{', '.join(gone)} is gone from {workspace.dist}",)
    return () if job.settings.reuse else ("--no-cache was given",)


def _stage(name: str) -> Callable[[Job], Any]:
    """A stage, imported when it runs: a build with nothing to do needs none of them."""
    found: Callable[[Job], Any] = getattr(import_module(f"cuwheel.stages.{name}"), name)
    return found


def _run_stages(names: Sequence[str], job: Job, key: dict[str, str]) -> None:
    with naming_full_disk(job.workspace.work):
        _prepare_work(job, key)
        from cuwheel.build.early_check import check_early  # noqa: PLC0415 - as `_stage` does

        check_early(job)
        for name in names:
            _run_stage(name, job)


def _run_stage(name: str, job: Job) -> None:
    workspace = job.workspace
    if name not in _EACH_TIME and workspace.has(name):
        workspace.console.note(f"{name}: kept from the interrupted run before")
        return
    with workspace.console.stage(name):
        workspace.save(name, _stage(name)(job))


def _prepare_work(job: Job, key: dict[str, str]) -> None:
    """Keep what an interrupted run of the same key left; remove everything else."""
    workspace, digest = job.workspace, digest_of_key(key)
    mark = workspace.work / "key"
    if not job.settings.reuse or not mark.is_file() or mark.read_text() != digest:
        remove_tree(workspace.work)
    for name in _EACH_TIME:
        (workspace.work / "stages" / f"{name}.json").unlink(missing_ok=True)
    write_atomically(mark, digest)


def _tidy(workspace: Workspace) -> None:
    """Leave logs and the records that later single stages need; the wheel is in `dist` now."""
    published = workspace.load("index", IndexedWheel)
    repaired = workspace.load("repair", RepairedWheel)
    workspace.save("repair", dataclasses.replace(repaired, path=published.wheel))
    for path in workspace.work.iterdir():
        if path.name not in _KEPT_FOLDERS:
            remove_tree(path)
    for path in (workspace.work / "stages").iterdir():
        if path.stem not in _KEPT_STAGES:
            path.unlink()


def _summarise(workspace: Workspace) -> Summary:
    wheel = workspace.load("repair", RepairedWheel)
    found = workspace.load("audit", Audit)
    built = workspace.load("build", BuiltWheel)
    outside = {soname: by for _, soname, by in found.suppliers if soname in wheel.external}
    return Summary(
        wheel=wheel.path.name,
        size=wheel.size,
        sha256=wheel.sha256,
        archs=found.archs,
        ptx_archs=found.ptx_archs,
        platform_tag=wheel.platform_tag,
        external=tuple(sorted(outside.items())),
        bundled=wheel.bundled,
        durations=tuple(workspace.console.durations.items()),
        peak_memory=built.peak_memory,
        cache=f"{built.cache}: {built.hits} of {built.compiles} compiles were there"
        if built.cache
        else "",
    )


def _record(job: Job) -> Path:
    return job.workspace.dist / ".cuwheel" / f"{job.target.id}.json"


def _read_record(job: Job) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(_record(job).read_text())
    except (OSError, ValueError):
        return {}
    return record
