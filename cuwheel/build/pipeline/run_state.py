"""The state of a work folder: the run that it belongs to, and what each stage last ran with.

`run.json` holds both: a build goes on after one that was killed, and stages that were run one by
one are known to fit together.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from cuwheel.base.system.files import remove_parts, remove_tree, sha256_of_file, write_atomically
from cuwheel.base.system.folders.output_folder import is_part
from cuwheel.base.system.regular_files import read_json
from cuwheel.build.pipeline.rebuild_key import digest_of_key, part_of_build
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import RECORDS, STAGES, IndexedWheel, RepairedWheel
from cuwheel.build.workspace.workspace import WORK_NAMES, Workspace

FROM_SMOKE = ("smoke", "provenance", "index")  # stages that the smoke test decides too
# Cheap, and about shared folders or the machine: they run each time. The output of the others is
# kept when a run of the same key was interrupted.
EACH_TIME = ("toolchain", "environment", "preflight", "provenance", "index")
# Records that stay after success: enough to smoke, audit or index the wheel again.
KEPT_STAGES = (
    *("patch", "toolchain", "environment", "preflight", "build", "repair", "audit", "smoke"),
)
STATE = "run.json"
PROFILE = "profile"  # folder of the work folder
_TIDYING = "finished"  # in place of the unfinished run's key
# Of the last build that compiled something; a run that ends before its first compile keeps them.
_SHOWN = ("logs", PROFILE)
_KEPT = ("stages", STATE, *_SHOWN)


def is_unfinished(workspace: Workspace) -> bool:
    """Return True if a run has begun here and not ended."""
    return bool(_read_state(workspace)[0])


def is_cleaning_up(workspace: Workspace) -> bool:
    """Return True if a run has ended, but was killed before its files were removed."""
    return _read_state(workspace)[0] == _TIDYING


def is_interrupted_run(workspace: Workspace, key: dict[str, str]) -> bool:
    """Return True if a run of this very key was stopped before its last stage."""
    return _read_state(workspace)[0] == digest_of_key(key) and not workspace.has("index")


def end_run(workspace: Workspace) -> None:
    """Note that no run is unfinished here."""
    run, ran = _read_state(workspace)
    if run:
        _write_state(workspace, "", ran)


def save_stage(name: str, record: object, workspace: Workspace, key: dict[str, str]) -> None:
    """Keep the record of a stage, and the digest of what decided it."""
    workspace.save(name, record)
    run, ran = _read_state(workspace)
    _write_state(workspace, run, {**ran, name: _decided(name, key)})


def have_all_run(stages: Sequence[str], workspace: Workspace, key: dict[str, str]) -> bool:
    """Return True if each stage last ran with what decides it now."""
    _, ran = _read_state(workspace)
    return all(ran.get(name) == _decided(name, key) for name in stages)


def start_run(job: Job, key: dict[str, str]) -> None:
    """Keep the stages of an unfinished run that are as this one's; remove everything else."""
    workspace = job.workspace
    kept = _usable_stages(workspace, key) if job.settings.reuse and is_unfinished(workspace) else ()
    if not kept:
        empty_work(workspace)
    for name in STAGES:
        if name not in kept:
            forget_stage(name, workspace)
    _write_state(workspace, digest_of_key(key), _read_state(workspace)[1])


def _usable_stages(workspace: Workspace, key: dict[str, str]) -> tuple[str, ...]:
    """Return the stages that ran with this key, up to the first one with an output that is gone."""
    usable: list[str] = []
    for name in STAGES:
        if name in EACH_TIME:
            continue
        if not have_all_run((name,), workspace, key) or not workspace.has(name):
            break
        path = getattr(workspace.load(name, RECORDS[name]), "path", None)
        if path and not path.exists():
            break
        usable.append(name)
    return tuple(usable)


def empty_work(workspace: Workspace) -> None:
    """Remove everything but the logs and the profile of the last build."""
    end_run(workspace)  # first: a folder that is half removed belongs to no run
    workspace.clear(keep=_SHOWN)


def remove_logs(workspace: Workspace) -> None:
    """Remove logs and profile of the build before: this one has its own from here on."""
    for name in _SHOWN:
        remove_tree(workspace.work / name)


def forget_stage(name: str, workspace: Workspace) -> None:
    """Remove the record of a stage."""
    workspace.record_path(name).unlink(missing_ok=True)


def tidy_work(workspace: Workspace) -> None:
    """Leave logs and the records that later single stages need; the wheel is in `dist` now.

    A process that is killed meanwhile leaves a mark, and the next run goes on.
    """
    if workspace.has("index"):
        published = workspace.load("index", IndexedWheel)
        repaired = workspace.load("repair", RepairedWheel)
        workspace.save("repair", dataclasses.replace(repaired, path=published.wheel))
    _write_state(workspace, _TIDYING, _read_state(workspace)[1])
    for path in workspace.work.iterdir():
        if path.name in WORK_NAMES.difference(_KEPT) or is_part(path.name):
            remove_tree(path)
    remove_parts(workspace.work / "stages")
    for path in (workspace.work / "stages").iterdir():
        if path.stem not in KEPT_STAGES:
            path.unlink()
    end_run(workspace)


def has_wheel(workspace: Workspace) -> bool:
    """Return True if the repaired wheel, here or in `dist/`, still has the same bytes."""
    if not workspace.has("repair"):
        return False
    wheel = workspace.load("repair", RepairedWheel)
    return wheel.path.is_file() and sha256_of_file(wheel.path) == wheel.sha256


def _read_state(workspace: Workspace) -> tuple[str, dict[str, str]]:
    """Return the digest of the unfinished run's key, or `_TIDYING`, or nothing; and all stages'."""
    state = read_json(workspace.work / STATE) or {}
    run, ran = state.get("run"), state.get("ran")
    return run if isinstance(run, str) else "", ran if isinstance(ran, dict) else {}


def _write_state(workspace: Workspace, run: str, ran: dict[str, str]) -> None:
    write_atomically(workspace.work / STATE, json.dumps({"run": run, "ran": ran}))


def _decided(name: str, key: dict[str, str]) -> str:
    return digest_of_key(key if name in FROM_SMOKE else part_of_build(key))
