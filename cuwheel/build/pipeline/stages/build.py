"""Stage build: the package's own build, in an environment with no variable of the caller."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import BuildFailedError
from cuwheel.base.system.process import Finished
from cuwheel.base.system.regular_files import is_regular, read_regular
from cuwheel.build.compile.build_mounts import private_paths
from cuwheel.build.compile.events import EVENTS_LOG, hit_counts, read_events
from cuwheel.build.compile.memory.peaks import known_peaks
from cuwheel.build.compile.seconds import learn_seconds
from cuwheel.build.pipeline.package_build.build_commands import (
    BuildCommands,
    prepared_commands,
    run_command,
    serving,
    watch_disks,
)
from cuwheel.build.pipeline.package_build.outcome import (
    not_hermetic,
    warn_of_cache_failure,
)
from cuwheel.build.pipeline.package_build.progress import Progress
from cuwheel.build.pipeline.package_build.shard_plan import ShardedBuild, seconds_path
from cuwheel.build.pipeline.package_build.unpinned_programs import (
    called_unpinned,
    describe_unpinned,
)
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import BuiltWheel


def build(job: Job) -> BuiltWheel:
    """Run `python -m build --wheel --no-isolation` on a copy of the patched source.

    CMake runs before it where the recipe has `install`.

    In a sandbox the build sees its folders at the same paths on every machine, and no network; the
    compiler launcher runs in place of each compiler.

    Raises:
        PreflightError: a lock lacks a requirement of the package's backend.
        BuildFailedError: the build failed; its log and the work folder are kept.
        DiskFullError: it failed because a disk ran full.
        SandboxError: the requested sandbox doesn't work here.
    """
    target, workspace = job.target, job.workspace
    with prepared_commands(job) as commands:
        inputs, path_map, cache = commands.inputs, commands.path_map, commands.cache
        shards = ShardedBuild(job, cache)
        shards.print_shards()
        started = time.time()
        finished = _run_all(job, commands)
    log = workspace.log("build")
    events = read_events(inputs.events_log)
    warn_of_cache_failure(workspace, inputs, cache, events)
    shards.print_missing(events)
    if cache.program.name:
        learn_seconds(seconds_path(cache.folder), events)
    cache.tidy_up()
    if dropped := sorted({option for compile_ in events.compiles for option in compile_.dropped}):
        workspace.console.note(
            f"the package passes {' and '.join(dropped)} to nvcc, which was removed: it writes "
            "paths and times of the sources into the objects, and doesn't change the code"
        )
    if called := called_unpinned(inputs):
        workspace.console.warn(
            "the package's build continued without programs of the machine: "
            f"{describe_unpinned(target, called)}"
        )
    neutral = {name: path_map.neutral(value) for name, value in commands.variables.items()}
    return BuiltWheel(
        path=_only_wheel(workspace.folder("built"), target, log),
        log=log,
        peak_memory=max(result.peak_memory for result in finished),
        environment=tuple(sorted(neutral.items())),
        private_paths=private_paths(target, workspace, inputs),
        not_hermetic=not_hermetic(job, inputs, path_map, commands.launcher.canary),
        started=started,
        cache=f"{cache.program.name} {cache.program.version}".strip(),
        compiles=sum(count.compiles for count in hit_counts(events)),
        hits=len(events.hits()),
        shared=events.shared,
        reused=events.reused,
    )


def _run_all(job: Job, commands: BuildCommands) -> list[Finished]:
    target, workspace = job.target, job.workspace
    log, inputs = workspace.log("build"), commands.inputs
    log.unlink(missing_ok=True)
    (workspace.log_folder / EVENTS_LOG).unlink(missing_ok=True)
    old_umask = os.umask(0o022)
    try:
        with (
            serving(job, commands) as is_poisoned,
            workspace.console.live("building") as line,
        ):
            peaks = known_peaks(workspace.cache / "memory", target.recipe.name)
            known = len({file for _, file, _ in peaks})
            watch = watch_disks(job, commands)
            progress = Progress(line, inputs.machine.jobs, inputs.events_log, known, watch)
            return [
                run_command(
                    job,
                    commands,
                    command,
                    "build",
                    progress=progress,
                    gives_up=is_poisoned,
                    what="the package's own build failed",
                )
                for command in commands.steps(target, workspace.folder("built"))
            ]
    finally:
        os.umask(old_umask)
        with contextlib.suppress(OSError):  # a build that fails early has none
            content = read_regular(inputs.events_log, limit=limits.EVENTS)
            (workspace.folder("logs") / EVENTS_LOG).write_bytes(content)


def _only_wheel(out: Path, target: Target, log: Path) -> Path:
    wheels = sorted(filter(is_regular, out.glob("*.whl")))
    if len(wheels) == 1:
        return wheels[0]
    raise BuildFailedError(
        f"{target.id}: the build made {len(wheels)} wheels instead of one",
        command=(),
        status=0,
        log=log,
        tail=[wheel.name for wheel in wheels],
        why="cuwheel publishes one wheel for each target",
        fix="read the log; the package's build may have ended early",
    )
