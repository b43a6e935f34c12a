"""The two ways to run a target's stages: `make` runs all up to one, `run_stage` a single one.

Both lock the work folder, so that two runs on one target wait for each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from cuwheel.base.errors import (
    CuwheelError,
    PublishedWheelError,
    SandboxError,
    TargetRootError,
    UsageError,
)
from cuwheel.base.formats.wheel.publication import SIMPLE, WHEEL_FOLDER, remove_unpublished
from cuwheel.base.system.console import silent_console
from cuwheel.base.system.files import file_lock, naming_full_disk, remove_parts, remove_tree
from cuwheel.base.system.folders.output_folder import check_files, check_output, claim
from cuwheel.base.system.parallel import Background, Stop, StoppedError
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.pipeline.published import (
    PublishedRecord,
    build_path,
    needs_smoke_only,
    outdated_reasons,
    published_wheel,
    read_build,
    reasons_to_build,
    record_build,
)
from cuwheel.build.pipeline.rebuild_key import (
    changes,
    check_project_state,
    key_of,
    read_project_state,
)
from cuwheel.build.pipeline.run_state import (
    EACH_TIME,
    FROM_SMOKE,
    empty_work,
    end_run,
    forget_stage,
    has_wheel,
    have_all_run,
    is_cleaning_up,
    is_unfinished,
    remove_logs,
    save_stage,
    start_run,
    tidy_work,
)
from cuwheel.build.pipeline.summary import Summary
from cuwheel.build.recipe.cells import is_cell
from cuwheel.build.wheelhouse.index_folders import SIMPLE_FOLDER
from cuwheel.build.workspace.failure_record import forget_failure, write_failure
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import STAGES, RepairedWheel, ShardResult
from cuwheel.build.workspace.request import Shard
from cuwheel.build.workspace.workspace import WORK_FOLDER

_REFUSALS = (UsageError, PublishedWheelError)  # of a command; the recipe may be all right
_OF_WHEEL = ("audit", "smoke")  # stages that need nothing but a wheel
_PUBLISHED = "published"  # folder of the work folder, where they try a wheel of `dist/`
# What a stage can prepare before its turn, by the stage during which it does so: a package's own
# build leaves cores idle while it imports PyTorch and while it links.
_PREPARED_DURING = {"build": "smoke"}
_STATES_INPUTS = "provenance"  # the stage that names the project's files in a statement


def make(job: Job, *, last: str = STAGES[-1]) -> Summary | None:
    """Run the stages up to one; up to the last of all they build, check and publish the wheel.

    Nothing is done where the wheel is there and nothing has changed, except by `--until`. A run
    that was killed goes on after its last complete stage, unless something has changed since.

    Returns:
        The published wheel; None: there are more stages.

    Raises:
        CuwheelError: of the stage that failed; the work folder is kept.
    """
    is_whole = last == STAGES[-1]
    publishes = is_whole or bool(job.settings.part)  # in this part, or in the one that follows
    with _locked(job), _recording_failure(job) if publishes else contextlib.nullcontext():
        _remove_leftovers(job)
        key, record = key_of(job), read_build(job)
        reasons = reasons_to_build(record, key, job)
        if publishes and record and not reasons:
            return _unchanged(record, job)
        only_smoke = publishes and needs_smoke_only(record, key, job)
        names = FROM_SMOKE if only_smoke else STAGES
        if last not in names:
            return None
        _check_early(job)
        if is_whole:
            _print_reasons(reasons, record, key, job, only_smoke=only_smoke)
        if publishes and not only_smoke:
            _prepare_dist(job)
        run = _run_kept if only_smoke else _run_stages
        run(names[: names.index(last) + 1], job, key)
        if not is_whole:
            return None
        summary = record_build(job, key, reasons)
        (end_run if job.settings.keep_work else tidy_work)(job.workspace)
    return summary


def compile_shard(job: Job, shard: Shard) -> ShardResult:
    """Compile a shard's share into the compile cache, in a work folder of which the logs stay.

    Raises:
        PreflightError: there is no compile cache that keeps objects.
        SandboxError: there is none, so that objects hold the paths of this work folder.
        CuwheelError: of the stage that failed; the work folder is kept.
    """
    # They load what a build with nothing to do needs not.
    from cuwheel.build.compile.cache.compile_cache import check_usable  # noqa: PLC0415
    from cuwheel.build.pipeline.package_build.shard_run import compile_share  # noqa: PLC0415

    workspace = job.workspace
    with _locked(job):
        _remove_leftovers(job)
        key = key_of(job)
        _check_early(job)
        if job.sandbox == "none":
            raise SandboxError(
                f"{job.target.id} can't be built in shards without a sandbox",
                why="objects then depend on the folder that they were compiled in, and each shard "
                "has another one",
                fix="install bubblewrap, and leave out --sandbox none",
            )
        check_usable(job)
        _run_stages(STAGES[: STAGES.index("build")], job, key)
        with naming_full_disk(workspace.work), workspace.console.stage("compile"):
            result = compile_share(job, shard, key)
        empty_work(workspace)
    return result


def run_stage(name: str, job: Job) -> Any:
    """Run one stage with the records of the stages before it, and return its record.

    `smoke` tries the wheel that a build now would keep, else the newest. The published wheel needs
    no work folder; a wheel that a run has left in its work folder counts where the published one is
    outdated, or there is none.

    Raises:
        UsageError: a stage before it has left nothing.
        CuwheelError: of the stage.
    """
    workspace = job.workspace
    if name in _OF_WHEEL and (wheel := _published(name, job)):
        return _run_on_published(name, wheel, job)
    with _locked(job), naming_full_disk(workspace.work), workspace.console.stage(name):
        key = key_of(job)
        workspace.claim()
        record = load_stage(name)(job)
        save_stage(name, record, workspace, key)
        if name == STAGES[-1]:
            if have_all_run(STAGES, workspace, key):
                record_build(job, key, ("its stages were run separately",))
                end_run(workspace)
            else:
                workspace.console.note(
                    "earlier stages ran with different settings, so the next build makes the wheel "
                    "again"
                )
    return record


def _published(name: str, job: Job) -> RepairedWheel | None:
    """Return the published wheel where a stage is to run on it, not on the work folder's."""
    note, is_in_work = job.workspace.console.note, has_wheel(job.workspace)
    if name == "audit":  # the build's record names paths to look for
        return None if is_in_work else published_wheel(job)
    is_builder = job.python.release == job.target.python  # not where a stable ABI is tried
    reasons = outdated_reasons(read_build(job), key_of(job), job) if is_builder else ()
    if reasons and is_in_work:
        note(f"trying the wheel that {job.workspace.work} knows")
        return None
    wheel = published_wheel(job)
    for reason in reasons if wheel else ():
        note(f"a build now would make the wheel again, because {reason}")
    return wheel


def load_stage(name: str) -> Callable[[Job], Any]:
    """Import a stage when it runs: a build with nothing to do needs none of them."""
    stage: Callable[[Job], Any] = getattr(
        import_module(f"cuwheel.build.pipeline.stages.{name}"), name
    )
    return stage


def _remove_leftovers(job: Job) -> None:
    """Remove what killed runs left, of other targets too, which may never be built again."""
    remove_unpublished(job.workspace.dist)
    remove_parts(build_path(job).parent)
    if is_cleaning_up(job.workspace):
        tidy_work(job.workspace)


def _print_reasons(
    reasons: Sequence[str],
    record: PublishedRecord | None,
    key: dict[str, str],
    job: Job,
    *,
    only_smoke: bool,
) -> None:
    note = job.workspace.console.note
    for reason in reasons:
        note(f"{'testing the wheel again' if only_smoke else 'building'}, because {reason}")
    if record and not only_smoke and changes(record.key, key) and not job.settings.replace:
        note(
            f"{record.summary.wheel} stays published as it is: a wheel with different bytes gets a "
            "build tag"
        )


def _run_kept(names: Sequence[str], job: Job, key: dict[str, str]) -> None:
    """Run stages from `smoke` on, with the output that the build before has left."""
    with naming_full_disk(job.workspace.work):
        forget_stage("smoke", job.workspace)
        for name in names:
            _run_stage(name, job, key)


def _run_stages(names: Sequence[str], job: Job, key: dict[str, str]) -> None:
    """Run stages in this order, from the first on; skip what an interrupted run has left.

    Raises:
        CuwheelError: of the stage that failed.
    """
    with naming_full_disk(job.workspace.work), Background() as background:
        check_files(job.workspace.dist / SIMPLE, SIMPLE_FOLDER)
        start_run(job, key)
        before = read_project_state(job)
        for name in names:
            if name == _STATES_INPUTS:
                check_project_state(before, job)
            if name == "build" and not job.workspace.has(name):
                remove_logs(job.workspace)
            later = _PREPARED_DURING.get(name, "")
            if later in names and not job.workspace.has(later):
                # A Ctrl-C in the midst of an import leaves its lock held, and another thread that
                # imports the same waits for ever. So nothing is imported during the preparation.
                for each in names:
                    load_stage(each)
                background.start(later, partial(prepare_stage, later, job))
            background.wait(name)
            _run_stage(name, job, key)


def prepare_stage(name: str, job: Job, stop: Stop) -> None:
    """Let a stage prepare, silently: it meets the same errors again at its turn, and raises."""
    workspace = dataclasses.replace(job.workspace, console=silent_console())
    prepare = import_module(f"cuwheel.build.pipeline.stages.{name}").prepare
    with contextlib.suppress(CuwheelError, OSError, StoppedError):
        prepare(dataclasses.replace(job, workspace=workspace), stop)


def _run_stage(name: str, job: Job, key: dict[str, str]) -> None:
    """Run a stage, unless its record is there and stays valid; show its log where verbose."""
    workspace = job.workspace
    if name not in EACH_TIME and workspace.has(name):
        workspace.console.note(f"{name}: kept from the interrupted run")
        return
    with workspace.console.stage(name):
        try:
            save_stage(name, load_stage(name)(job), workspace, key)
        finally:
            path = workspace.log_folder / f"{name}.log"
            with (
                contextlib.suppress(OSError),
                io.TextIOWrapper(open_file(path), errors="replace") as log,
            ):
                workspace.console.output(log)


def _unchanged(record: PublishedRecord, job: Job) -> Summary:
    """Return the summary of a wheel that is up to date, without durations: no stage has run."""
    workspace = job.workspace
    if is_unfinished(workspace) and not job.settings.keep_work:
        # A run that was killed after its last stage, or was about something else.
        (tidy_work if workspace.has("index") else empty_work)(workspace)
    forget_failure(workspace.dist, job.target.id)
    workspace.console.note(f"{record.summary.wheel} is up to date: nothing to do")
    return dataclasses.replace(record.summary, durations=())


def _prepare_dist(job: Job) -> None:
    """Refuse a wheel that could not be published; claim the folder before anything is compiled."""
    if not job.settings.replace_broader:
        from cuwheel.build.wheelhouse.narrower import check_declared  # noqa: PLC0415 - as `load_stage`

        check_declared(job.target, job.workspace.dist, job.workspace.cache)
    claim(job.workspace.dist, WHEEL_FOLDER)  # a compile cache may be made inside of it


def _locked(job: Job) -> contextlib.AbstractContextManager[None]:
    workspace = job.workspace
    check_output(workspace.work, WORK_FOLDER)
    check_output(workspace.dist, WHEEL_FOLDER)
    check_output(workspace.dist / SIMPLE, SIMPLE_FOLDER)
    if workspace.work.is_relative_to(workspace.dist):
        claim(workspace.dist, WHEEL_FOLDER)  # before it holds the work folder's lock
    wait = f"another cuwheel is building {job.target.id}; waiting for it"
    return file_lock(workspace.lock, on_wait=lambda: workspace.console.note(wait))


@contextlib.contextmanager
def _recording_failure(job: Job) -> Iterator[None]:
    """Record next to the wheels why the block failed: `nox -s matrix` shows it.

    Errors that are about a command line, and not about a cell of the matrix, leave no record.
    """
    try:
        yield
    except CuwheelError as error:
        lacks_root = any(isinstance(fault, TargetRootError) for fault in job.machine.faults)
        if is_cell(job.target) and not lacks_root and not isinstance(error, _REFUSALS):
            write_failure(error, job.workspace.dist, job.target.id)
        raise


def _check_early(job: Job) -> None:
    """Check all that can be checked, before anything of an earlier run is removed."""
    with naming_full_disk(job.workspace.work):
        from cuwheel.build.pipeline.checks import check  # noqa: PLC0415 - as `load_stage`

        check(job, "early")


def _run_on_published(name: str, wheel: RepairedWheel, job: Job) -> Any:
    """Run a stage on a published wheel, in a folder of its own: an interrupted run can go on."""
    workspace = job.workspace
    apart = dataclasses.replace(workspace, work=workspace.work / _PUBLISHED)
    with _locked(job), naming_full_disk(workspace.work), workspace.console.stage(name):
        workspace.claim()
        remove_tree(apart.work)
        apart.save("repair", wheel)
        record = load_stage(name)(dataclasses.replace(job, workspace=apart))
        remove_tree(apart.work)
    return record
