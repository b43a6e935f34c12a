"""A shard of a build: the compiles of its share go into the compile cache, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import FileAccessError
from cuwheel.base.paths import script
from cuwheel.base.system.disks import DiskWatch, is_full, is_same_disk
from cuwheel.base.system.files import disk_full
from cuwheel.base.system.quantities import first_of, plural
from cuwheel.base.system.regular_files import copy_regular
from cuwheel.build.compile.cache.compile_cache import CompileCache
from cuwheel.build.compile.cache.statistics import read_statistics
from cuwheel.build.compile.events import DIRECT_MODE, Events, read_events
from cuwheel.build.compile.launcher_setup import share_variables
from cuwheel.build.compile.seconds import known_seconds, learn_seconds
from cuwheel.build.pipeline.package_build.build_commands import (
    BuildCommands,
    prepared_commands,
    run_command,
    serving,
    watch_disks,
)
from cuwheel.build.pipeline.package_build.dry_run import DryRun, ListedCompile, run_dry
from cuwheel.build.pipeline.package_build.progress import Progress
from cuwheel.build.pipeline.package_build.shard_plan import (
    ShardPlan,
    ShardRecords,
    id_of,
    seconds_path,
)
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import ShardResult
from cuwheel.build.workspace.request import Shard

_RUNNER = script("build/compile/launcher/run_compiles.py")
_DRY_RUNS = 4  # programs that build programs that build sources; packages have one of these levels
_LOG, _DRY_LOG = "shard", "dry-run"


@dataclass(frozen=True)
class CompileShare:
    """What a shard does of one compile.

    Attributes:
        archs: of the device code that it makes; empty: it makes the object.
        units: of the plan.
    """

    compile: ListedCompile
    archs: tuple[str, ...]
    units: int


def compile_share(job: Job, shard: Shard, key: Mapping[str, str]) -> ShardResult:
    """Compile a shard's share of a target into the compile cache.

    The stages up to preflight have run in the job's work folder.

    Raises:
        BuildFailedError: a file of the share doesn't compile, or the build compiles nothing.
        DiskFullError: a disk is full, or was.
        FileAccessError: the compile cache hasn't kept what was compiled.
        CuwheelError: as `prepared_commands`.
    """
    real: frozenset[str] = frozenset()
    for number in range(_DRY_RUNS):
        with prepared_commands(job) as commands, serving(job, commands):
            dry = run_dry(job, commands, _DRY_LOG, real)
            if (needed := dry.needed - real) and number + 1 < _DRY_RUNS:
                real |= needed
                continue
            return _compile(job, commands, shard, key, _usable(job, dry))
    raise AssertionError("the last dry run is used")  # pragma: no cover


def _usable(job: Job, dry: DryRun) -> tuple[ListedCompile, ...]:
    """Return the listed compiles; warn if the build ended before it had started them all."""
    if not dry.compiles and dry.failure:
        raise dry.failure
    if dry.called and dry.failure:
        job.workspace.console.warn(
            f"the build runs {first_of(dry.called, 1)}, which it compiles itself: what it compiles "
            "after that is not known before, and is left to the build without --shard"
        )
    elif dry.failure:
        job.workspace.console.note(
            "without objects the build ended early, as many do when they link: what it would have "
            f"compiled after that is left to the build without --shard (log: {dry.failure.log})"
        )
    return dry.compiles


def _compile(
    job: Job,
    commands: BuildCommands,
    shard: Shard,
    key: Mapping[str, str],
    compiles: tuple[ListedCompile, ...],
) -> ShardResult:
    cache, inputs, console = commands.cache, commands.inputs, job.workspace.console
    records = ShardRecords(cache, job, key)
    for line in records.others():
        console.warn(line)
    plan = records.settle(compiles, known_seconds(seconds_path(cache.folder)), shard.count)
    _compare(job, plan, compiles)
    own, total = own_share(plan, shard, compiles)
    inputs.events_log.unlink(missing_ok=True)  # of the configuration, and of programs
    watch = watch_disks(job, commands)
    try:
        if own:
            _run(job, commands, own, watch)
    finally:
        events = read_events(inputs.events_log)
        learn_seconds(seconds_path(cache.folder), events)
        cache.tidy_up()
    check_kept(cache, inputs.events, events, watch)
    result = _result(plan, shard, own, total, events)
    records.save(result)
    return result


def check_kept(cache: CompileCache, logs: Path, events: Events, watch: DiskWatch) -> None:
    """Raise an error if the compile cache hasn't kept the objects of compiles that ended.

    For a full disk sccache counts an error, and ccache a call that it couldn't cache.

    Raises:
        DiskFullError: its disk was full.
        FileAccessError: it failed for another reason.
    """
    counts = read_statistics(logs)
    full = watch.full
    was_full = is_full(cache.folder) or (full is not None and is_same_disk(full, cache.folder))
    if was_full and (counts["errors"] or counts["uncached"]):
        raise disk_full(cache.folder)
    calls = [compile_ for compile_ in events.compiles if compile_.cached != DIRECT_MODE]
    if counts["errors"] or (calls and not counts.total()):
        raise FileAccessError(
            f"the compile cache {cache.folder} hasn't kept all that this shard compiled",
            why=f"{cache.program.name} failed {plural(max(counts['errors'], 1), 'time')}",
            fix="run the shard again: it takes what was kept; if that ends likewise, set "
            "CUWHEEL_COMPILE_CACHE to another disk",
        )


def _compare(job: Job, plan: ShardPlan, compiles: Iterable[ListedCompile]) -> None:
    """Warn if this build's compiles aren't those of the plan, which another shard made."""
    here, planned = {id_of(each) for each in compiles}, {each.id for each in plan.compiles}
    if here != planned:
        job.workspace.console.warn(
            f"this build compiles {plural(len(here), 'file')}, {len(here - planned)} of which the "
            f"plan {plan.fingerprint} doesn't know: its command lines differ from run to run, or "
            "from machine to machine, and the build without --shard compiles what no shard did"
        )


def own_share(
    plan: ShardPlan, shard: Shard, compiles: Iterable[ListedCompile]
) -> tuple[list[CompileShare], int]:
    """Return the share of a shard, the longest first, and the number of all shards' units."""
    here = {id_of(each): each for each in compiles}
    units = Counter(each.id for each in plan.compiles)
    own = [
        CompileShare(here[name], archs if len(archs) < units[name] else (), len(archs) or 1)
        for name, archs in plan.share_of(shard.number).items()
        if name in here
    ]
    own += [
        CompileShare(each, (), 1)
        for name, each in sorted(here.items())
        if name not in units and plan.shard_of_unknown(name) == shard.number
    ]
    return own, sum(units.get(name, 1) for name in here)


def _run(job: Job, commands: BuildCommands, own: list[CompileShare], watch: DiskWatch) -> None:
    """Run compiles in one command of the sandbox, with one server of the compile cache."""
    inputs, inside = commands.inputs, commands.path_map.inside
    runner, listed = inputs.launcher / _RUNNER.name, inputs.launcher / "share.jsonl"
    copy_regular(_RUNNER, runner)
    lines = []
    for part in own:
        each = part.compile
        program = inputs.view if each.name == "nvcc" else inputs.launcher
        argv = (inside(str(program / "bin" / each.name)), *each.arguments)
        variables = (*each.variables, *share_variables(part.archs))
        fields = {"name": each.file, "folder": each.folder, "variables": variables}
        lines.append(json.dumps({**fields, "arguments": argv}))
    listed.write_text("\n".join([*lines, ""]))
    job.workspace.log(_LOG).unlink(missing_ok=True)
    python, jobs = commands.launcher.python, inputs.machine.jobs
    with job.workspace.console.live("compiling") as line:
        progress = Progress(line, jobs, inputs.events_log, len(own), watch)
        run_command(
            job,
            commands,
            [python, "-ISB", runner, listed, str(jobs)],
            _LOG,
            what="a file of this shard doesn't compile",
            progress=progress,
        )


def count_hits(parts: Iterable[CompileShare], events: Events) -> int:
    """Return the number of units for which nothing had to run."""
    hits, device_runs = events.hits(), events.device_runs()
    units = {part.compile.file: part.units for part in parts}
    found = 0
    for each in events.compiles:
        whole = units.get(each.file, 1)
        if each.share or (whole > 1 and each.id not in hits):
            archs = each.share or each.archs
            found += sum((each.id, arch) not in device_runs for arch in archs)
        elif each.id in hits:
            found += whole
    return found


def _result(
    plan: ShardPlan, shard: Shard, parts: list[CompileShare], total: int, events: Events
) -> ShardResult:
    units, hits = sum(part.units for part in parts), count_hits(parts, events)
    return ShardResult(
        shard=shard.number,
        count=shard.count,
        plan=plan.fingerprint,
        compiled=units - hits,
        hits=hits,
        left=total - units,
        seconds=round(sum(tool.cpu for tool in events.tools), 1),
    )
