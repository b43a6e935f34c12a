"""The whole way from a target to a published wheel: which stages, in which order, and when."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from cuwheel.build.rebuild_key import changes, digest_of, key_of
from cuwheel.build.summary import Summary
from cuwheel.stages.audit import audit
from cuwheel.stages.build import build
from cuwheel.stages.environment import environment
from cuwheel.stages.index import index
from cuwheel.stages.patch import patch
from cuwheel.stages.preflight import preflight
from cuwheel.stages.provenance import provenance
from cuwheel.stages.repair import repair
from cuwheel.stages.smoke import smoke
from cuwheel.stages.source import source
from cuwheel.stages.toolchain import toolchain
from cuwheel.system.files import (
    lock,
    naming_full_disk,
    remove_tree,
    sha256_of_file,
    write_atomically,
)
from cuwheel.workspace.records import Audit, BuiltWheel, Published, RepairedWheel
from cuwheel.workspace.serialization import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.records import Toolchain
    from cuwheel.workspace.workspace import Workspace


def _toolchain(target: Target, space: Workspace) -> Toolchain:
    return toolchain(target.toolkit, target.provider, space)


# The source comes first: it is small, and the likeliest to be out of reach or not as pinned.
STAGES: Mapping[str, Callable[[Target, Workspace], Any]] = {
    "source": source,
    "patch": patch,
    "toolchain": _toolchain,
    "environment": environment,
    "preflight": preflight,
    "build": build,
    "repair": repair,
    "audit": audit,
    "smoke": smoke,
    "provenance": provenance,
    "index": index,
}

# Cheap, and about shared folders or the machine: they run each time. What the others made is kept
# when a run of the same key was interrupted.
_EACH_TIME = ("toolchain", "environment", "preflight", "provenance", "index")

# What stays of the work folder after success: enough to smoke, audit or index the wheel again.
_KEPT_STAGES = ("toolchain", "environment", "preflight", "build", "repair", "audit", "smoke")
PROFILE = "profile"  # folder of the work folder
_KEPT_FOLDERS = ("stages", "logs", PROFILE)


def make(target: Target, space: Workspace, *, keep_work: bool) -> Summary:
    """Build, check and publish one wheel; do nothing when it is there and nothing has changed.

    Two of these on one target wait for each other. A run that was killed is taken up after its
    last complete stage, unless something has changed since.

    Args:
        target: what to build.
        space: where.
        keep_work: leave all of the work folder after success.

    Raises:
        CuwheelError: of the stage that failed; the work folder is kept.
    """
    with _alone(target, space):
        key = key_of(target, space)
        record = _read_record(target, space)
        reasons = _reasons(record, key, space) or _unfinished(space, key)
        if not reasons:
            space.console.note(f"{record['summary']['wheel']} is up to date: nothing to do")
            if _is_unfinished(space) and not keep_work:
                _clear(space)
            return rebuild(Summary, record["summary"])
        for reason in reasons:
            space.console.note(f"building, because {reason}")
        with naming_full_disk(space.work):
            _prepare_work(space, key)
            preflight(target, space)
            for name in STAGES:
                _run_stage(name, target, space)
        # Whatever is kept here from now on is of a finished run: no later one takes it up.
        (space.work / "key").unlink()
        summary = _summarise(space)
        written = {"key": key, "summary": dataclasses.asdict(summary), "reasons": reasons}
        write_atomically(_record(target, space), json.dumps(written, indent=2) + "\n")
        if not keep_work:
            _tidy(space)
    return summary


def make_stage(name: str, target: Target, space: Workspace) -> Any:
    """Run one stage on what the stages before it left in the work folder, and return its artefact.

    Raises:
        StageOrderError: one of them has left nothing.
        CuwheelError: of the stage.
    """
    with _alone(target, space), naming_full_disk(space.work), space.console.stage(name):
        mark = space.work / "key"
        if _is_unfinished(space) and mark.read_text() != digest_of(key_of(target, space)):
            mark.unlink()  # what this leaves is of another target than the interrupted run's
        artefact = STAGES[name](target, space)
        space.save(name, artefact)
    return artefact


def explain(target: Target, space: Workspace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Why a build would do work now (nothing: it wouldn't), and why the last one did."""
    record = _read_record(target, space)
    return _reasons(record, key_of(target, space), space), tuple(record.get("reasons", ()))


def _is_unfinished(space: Workspace) -> bool:
    return (space.work / "key").is_file()


def _unfinished(space: Workspace, key: dict[str, str]) -> tuple[str, ...]:
    """A reason to go on, where an earlier run of this very key left its work half done."""
    mark = space.work / "key"
    is_ours = _is_unfinished(space) and mark.read_text() == digest_of(key)
    return ("an earlier run was not finished",) if is_ours and not space.has("index") else ()


def _clear(space: Workspace) -> None:
    """Tidy up after a run that was killed after its last stage, or was about something else."""
    if space.has("index"):
        _tidy(space)
    else:
        remove_tree(space.work)


def _alone(target: Target, space: Workspace) -> Any:
    def tell() -> None:
        space.console.note(f"another cuwheel is at work on {target.id}; waiting for it")

    return lock(space.work.with_name(f"{space.work.name}.lock"), on_wait=tell)


def _reasons(record: dict[str, Any], key: dict[str, str], space: Workspace) -> tuple[str, ...]:
    if not record:
        return (f"{space.dist} holds no record of this target",)
    if found := changes(record["key"], key):
        return found
    wheel = space.dist / record["summary"]["wheel"]
    if not wheel.is_file():
        return (f"{wheel.name} is gone from {space.dist}",)
    if sha256_of_file(wheel) != record["summary"]["sha256"]:
        return (f"{wheel.name} is not the file that was built",)
    beside = (wheel.with_name(f"{wheel.name}.provenance.json"), space.dist / "simple")
    if gone := [path.name for path in beside if not path.exists()]:
        return (f"{', '.join(gone)} is gone from {space.dist}",)
    return () if space.reuse else ("--no-cache was given",)


def _run_stage(name: str, target: Target, space: Workspace) -> None:
    if name not in _EACH_TIME and space.has(name):
        space.console.note(f"{name}: kept from the interrupted run before")
        return
    with space.console.stage(name):
        space.save(name, STAGES[name](target, space))


def _prepare_work(space: Workspace, key: dict[str, str]) -> None:
    """Keep what an interrupted run of the same key left; remove everything else."""
    mark, wanted = space.work / "key", digest_of(key)
    if not space.reuse or not mark.is_file() or mark.read_text() != wanted:
        remove_tree(space.work)
    for name in _EACH_TIME:
        (space.work / "stages" / f"{name}.json").unlink(missing_ok=True)
    write_atomically(mark, wanted)


def _tidy(space: Workspace) -> None:
    """Leave logs and the records that later single stages need; the wheel is in `dist` now."""
    published = space.load("index", Published)
    repaired = space.load("repair", RepairedWheel)
    space.save("repair", dataclasses.replace(repaired, path=published.wheel))
    for path in space.work.iterdir():
        if path.name not in _KEPT_FOLDERS:
            remove_tree(path)
    for path in (space.work / "stages").iterdir():
        if path.stem not in _KEPT_STAGES:
            path.unlink()


def _summarise(space: Workspace) -> Summary:
    wheel = space.load("repair", RepairedWheel)
    found = space.load("audit", Audit)
    built = space.load("build", BuiltWheel)
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
        durations=tuple(space.console.durations.items()),
        peak_memory=built.peak_memory,
        cache=f"{built.cache}: {built.hits} of {built.compiles} compiles were there"
        if built.cache
        else "",
    )


def _record(target: Target, space: Workspace) -> Path:
    return space.dist / ".cuwheel" / f"{target.id}.json"


def _read_record(target: Target, space: Workspace) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(_record(target, space).read_text())
    except (OSError, ValueError):
        return {}
    return record
