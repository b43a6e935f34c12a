"""The whole way from a target to a published wheel: which stages, in which order, and when."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cuwheel.build.rebuild_key import changes, key_of, part_of_build
from cuwheel.build.run_state import (
    FROM_SMOKE,
    MARK,
    RAN,
    have_all_run,
    is_cleaning_up,
    is_unfinished,
    mark_cleanup,
    mark_of,
    read_mark,
    resume_run,
    save_stage,
)
from cuwheel.build.summary import Summary
from cuwheel.errors import CuwheelError
from cuwheel.sources.source_state import (
    SourceState,
    describe_source_change,
    read_source_state,
)
from cuwheel.system.console import silent_console
from cuwheel.system.files import (
    file_lock,
    naming_full_disk,
    remove_parts,
    remove_tree,
    sha256_of_file,
    write_atomically,
)
from cuwheel.system.parallel import StoppedError, in_background
from cuwheel.system.quantities import plural
from cuwheel.system.regular_files import read_json
from cuwheel.wheel.publication import missing_beside, remove_unpublished
from cuwheel.workspace.failure_record import forget_failure, write_failure
from cuwheel.workspace.records import (
    Audit,
    BuiltWheel,
    Environment,
    IndexedWheel,
    RepairedWheel,
)
from cuwheel.workspace.serialization import from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cuwheel.system.parallel import Stop
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

# What a stage can make before its turn, by the stage beside which it does so: a package's own build
# leaves cores idle while it imports PyTorch and while it links.
_PREPARED_BESIDE = {"build": "smoke"}

# Cheap, and about shared folders or the machine: they run each time. What the others made is kept
# when a run of the same key was interrupted.
_EACH_TIME = ("toolchain", "environment", "preflight", "provenance", "index")

# What stays of the work folder after success: enough to smoke, audit or index the wheel again.
_KEPT_STAGES = (
    *("patch", "toolchain", "environment", "preflight", "build", "repair", "audit", "smoke"),
)
PROFILE = "profile"  # folder of the work folder
_KEPT = ("stages", "logs", PROFILE, RAN)


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
    with _exclusive(job), _recording_failure(job):
        # Of other targets too, which may never be built again.
        remove_unpublished(workspace.dist)
        remove_parts(_record(job).parent)
        if is_cleaning_up(workspace):
            _tidy(workspace)
        key = key_of(job)
        record = _read_record(job)
        reasons = _pending(record, key, job)
        if not reasons:
            if is_unfinished(workspace) and not keep_work:
                _clear(workspace)
            return _unchanged(record)
        is_built = _has_built(record, key, job)
        for reason in reasons:
            doing = "testing the wheel again" if is_built else "building"
            workspace.console.note(f"{doing}, because {reason}")
        has_changed = bool(record) and bool(changes(record["key"], key))
        if has_changed and not is_built and not job.settings.replace:
            workspace.console.note(
                f"{record['summary']['wheel']} stays published as it is: a wheel with different "
                "bytes gets a build tag"
            )
        if is_built:
            _try_again(job, key)
        else:
            _run_stages(STAGES, job, key)
        summary = _finish(job, key, reasons)
        if keep_work:
            (workspace.work / MARK).unlink(missing_ok=True)
        else:
            _tidy(workspace)
    return summary


@dataclass(frozen=True, kw_only=True)
class Published:
    """A wheel that a build has published.

    Attributes:
        summary: what is known of it.
        date: when, in UTC; empty for one that an older cuwheel published.
        outdated: why a build now would make it again; empty where it wouldn't.
    """

    summary: Summary
    date: str
    outdated: tuple[str, ...]


def published(job: Job) -> Published | None:
    """The wheel that is there; None: there is none."""
    record = _read_record(job)
    if not record or not (job.workspace.dist / record["summary"]["wheel"]).is_file():
        return None
    return Published(
        summary=from_json(Summary, record["summary"]),
        date=record.get("date", ""),
        outdated=_reasons(record, key_of(job), job),
    )


def make_stage(name: str, job: Job) -> Any:
    """Run one stage on what the stages before it left in the work folder, and return its record.

    Raises:
        StageOrderError: one of them has left nothing.
        CuwheelError: of the stage.
    """
    workspace = job.workspace
    with _exclusive(job), naming_full_disk(workspace.work), workspace.console.stage(name):
        mark, key = workspace.work / MARK, key_of(job)
        if is_unfinished(workspace) and not resume_run(workspace, key):
            mark.unlink()  # what this leaves is of another target than the interrupted run's
        record = _stage(name)(job)
        save_stage(name, record, workspace, key)
        if name == STAGES[-1]:
            if have_all_run(STAGES, workspace, key):
                _finish(job, key, ("its stages were run separately",))
                mark.unlink(missing_ok=True)
            else:
                workspace.console.note(
                    "earlier stages ran with different settings, so the next build makes the wheel "
                    "again"
                )
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


def make_part(last: str, job: Job) -> Summary | None:
    """Run the stages of a build up to one and stop, unless there is nothing to do.

    Args:
        last: the stage, `build` or one before it.
        job: what to build, and where.

    Returns:
        The wheel that is there, where nothing has changed; None: `make` has more to do.

    Raises:
        CuwheelError: of the stage that failed.
    """
    with _exclusive(job), _recording_failure(job):
        key, record = key_of(job), _read_record(job)
        if not _pending(record, key, job):
            return _unchanged(record)
        if not _has_built(record, key, job):
            _run_stages(STAGES[: STAGES.index(last) + 1], job, key)
    return None


def rebuild_reasons(job: Job) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Why a build would do work now (nothing: it wouldn't), and why the last one did."""
    record = _read_record(job)
    return _reasons(record, key_of(job), job), tuple(record.get("reasons", ()))


def _pending(record: dict[str, Any], key: dict[str, str], job: Job) -> tuple[str, ...]:
    """Why there is something to do; nothing, and a note, where there isn't."""
    reasons = _reasons(record, key, job) or _unfinished(job.workspace, key)
    if not reasons:
        wheel = record["summary"]["wheel"]
        job.workspace.console.note(f"{wheel} is up to date: nothing to do")
    return reasons


def _unchanged(record: dict[str, Any]) -> Summary:
    """What is known of a wheel that is up to date: no stage has run, so none has a duration."""
    return dataclasses.replace(from_json(Summary, record["summary"]), durations=())


def _unfinished(workspace: Workspace, key: dict[str, str]) -> tuple[str, ...]:
    """A reason to go on, where an earlier run of this very key left its work half done."""
    is_ours = read_mark(workspace) == mark_of(key)
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


@contextlib.contextmanager
def _recording_failure(job: Job) -> Iterator[None]:
    """Leave beside the wheels why the block failed: `nox -s matrix` shows it."""
    try:
        yield
    except CuwheelError as error:
        write_failure(error, job.workspace.dist, job.target.id)
        raise


def _reasons(record: dict[str, Any], key: dict[str, str], job: Job) -> tuple[str, ...]:
    workspace = job.workspace
    if not record:
        return (f"{workspace.dist} has no record of this target",)
    if found := changes(record["key"], key):
        return tuple(_told(line, record, job) for line in found)
    wheel = workspace.dist / record["summary"]["wheel"]
    if not wheel.is_file():
        return (f"{wheel.name} is missing from {workspace.dist}",)
    if sha256_of_file(wheel) != record["summary"]["sha256"]:
        return (f"{wheel.name} is not the wheel that was built",)
    if gone := missing_beside(wheel, record["summary"]["sha256"]):
        return (f"{', '.join(gone)} in {workspace.dist} is missing, or belongs to another wheel",)
    return () if job.settings.reuse else ("--no-cache was given",)


def _told(line: str, record: dict[str, Any], job: Job) -> str:
    """A reason; of a source folder, what has changed in it."""
    name, folder = line.partition(": ")[0], job.target.source_folder
    if name != "source" or folder is None or not folder.is_dir() or "source" not in record:
        return line
    now = read_source_state(folder, without=job.workspace.folders)
    told = describe_source_change(from_json(SourceState, record["source"]), now)
    return f"{name}: {told}" if told else line


def _stage(name: str) -> Callable[[Job], Any]:
    """A stage, imported when it runs: a build with nothing to do needs none of them."""
    found: Callable[[Job], Any] = getattr(import_module(f"cuwheel.stages.{name}"), name)
    return found


def _run_stages(names: Sequence[str], job: Job, key: dict[str, str]) -> None:
    with naming_full_disk(job.workspace.work), in_background() as background:
        _prepare_work(job, key)
        from cuwheel.build.early_check import check_early  # noqa: PLC0415 - as `_stage` does

        check_early(job)
        for name in names:
            later = _PREPARED_BESIDE.get(name, "")
            if later in names and not job.workspace.has(later):
                # A Ctrl-C in the midst of an import leaves its lock held, and whoever imports the
                # same in another thread waits for ever. So nothing is imported beside it.
                for one in names:
                    _stage(one)
                background.start(later, partial(_prepare_stage, later, job))
            background.wait(name)
            _run_stage(name, job, key)


def _prepare_stage(name: str, job: Job, stop: Stop) -> None:
    """Let a stage prepare, silently: what goes wrong it meets again at its turn, and says it."""
    workspace = dataclasses.replace(job.workspace, console=silent_console())
    prepare = import_module(f"cuwheel.stages.{name}").prepare
    with contextlib.suppress(CuwheelError, OSError, StoppedError):
        prepare(dataclasses.replace(job, workspace=workspace), stop)


def _has_built(record: dict[str, Any], key: dict[str, str], job: Job) -> bool:
    """Whether the published wheel is the one that a build would make now.

    Only the smoke test has changed since, and what the stages from there on need is still there.
    """
    workspace = job.workspace
    if not record or not job.settings.reuse or is_unfinished(workspace):
        return False
    if part_of_build(record["key"]) != part_of_build(key) or record["key"] == key:
        return False
    if not all(workspace.has(name) for name in _KEPT_STAGES if name not in FROM_SMOKE):
        return False
    wheel = workspace.load("repair", RepairedWheel)
    environment = workspace.load("environment", Environment)
    is_there = wheel.path.is_file() and environment.site_packages.is_dir()
    return is_there and sha256_of_file(wheel.path) == record["summary"]["sha256"]


def _try_again(job: Job, key: dict[str, str]) -> None:
    """Run the stages from the smoke test on, on what a finished build has left."""
    with naming_full_disk(job.workspace.work):
        from cuwheel.build.early_check import check_early  # noqa: PLC0415 - as `_stage` does

        check_early(job)
        (job.workspace.work / "stages" / "smoke.json").unlink(missing_ok=True)
        for name in FROM_SMOKE:
            _run_stage(name, job, key)


def _finish(job: Job, key: dict[str, str], reasons: tuple[str, ...]) -> Summary:
    """Write the record of a published wheel, by which the next build knows it."""
    summary = _summarise(job.workspace)
    now = datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
    written = {
        "key": key,
        "summary": dataclasses.asdict(summary),
        "reasons": reasons,
        "date": now,
    }
    if folder := job.target.source_folder:
        state = read_source_state(folder, without=job.workspace.folders)
        written["source"] = dataclasses.asdict(state)
    write_atomically(_record(job), json.dumps(written, indent=2) + "\n")
    forget_failure(job.workspace.dist, job.target.id)
    return summary


def _run_stage(name: str, job: Job, key: dict[str, str]) -> None:
    workspace = job.workspace
    if name not in _EACH_TIME and workspace.has(name):
        workspace.console.note(f"{name}: kept from the interrupted run")
        return
    with workspace.console.stage(name):
        try:
            save_stage(name, _stage(name)(job), workspace, key)
        finally:
            _show_log(name, workspace)


def _show_log(name: str, workspace: Workspace) -> None:
    """Hand on what the programs of a stage wrote."""
    path = workspace.log_folder / f"{name}.log"
    with contextlib.suppress(OSError), path.open(errors="replace") as log:
        workspace.console.output(log)


def _prepare_work(job: Job, key: dict[str, str]) -> None:
    """Keep what an interrupted run of the same wheel left; remove everything else."""
    workspace = job.workspace
    is_ours = job.settings.reuse and is_unfinished(workspace) and resume_run(workspace, key)
    if not is_ours:
        remove_tree(workspace.work)
    for name in _EACH_TIME:
        (workspace.work / "stages" / f"{name}.json").unlink(missing_ok=True)
    write_atomically(workspace.work / MARK, mark_of(key))


def _tidy(workspace: Workspace) -> None:
    """Leave logs and the records that later single stages need; the wheel is in `dist` now.

    Who is killed meanwhile leaves a mark, and the next run goes on.
    """
    if workspace.has("index"):
        published = workspace.load("index", IndexedWheel)
        repaired = workspace.load("repair", RepairedWheel)
        workspace.save("repair", dataclasses.replace(repaired, path=published.wheel))
    mark_cleanup(workspace)
    for path in workspace.work.iterdir():
        if path.name not in {*_KEPT, MARK}:
            remove_tree(path)
    remove_parts(workspace.work / "stages")
    for path in (workspace.work / "stages").iterdir():
        if path.stem not in _KEPT_STAGES:
            path.unlink()
    (workspace.work / MARK).unlink()


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
        cache=_cache_summary(built),
    )


def _cache_summary(built: BuiltWheel) -> str:
    if not built.cache:
        return ""
    hits = f"{built.cache}: {built.hits} of {built.compiles} compiles were in it"
    if not built.shared:
        return hits
    steps = plural(built.shared, "step")
    return f"{hits}; {steps} of device code taken from a build for another platform"


def _record(job: Job) -> Path:
    return job.workspace.dist / ".cuwheel" / f"{job.target.id}.json"


def _read_record(job: Job) -> dict[str, Any]:
    """What is known of the published wheel; nothing where that isn't a whole record."""
    record = read_json(_record(job)) or {}
    try:
        from_json(Summary, record["summary"])
        reasons, texts = record.get("reasons", ()), {**record["key"]}.values()
        is_whole = all(isinstance(text, str) for text in (*texts, *reasons, record.get("date", "")))
    except (KeyError, TypeError, ValueError):
        return {}
    return record if is_whole else {}
