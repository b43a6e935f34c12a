"""Compiles of single files of a package, by the command lines that a dry run of its build lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cuwheel.base.errors import BuildFailedError
from cuwheel.build.compile.memory.peaks import known_peaks
from cuwheel.build.pipeline.package_build.build_commands import (
    BuildCommands,
    prepared_commands,
    run_command,
    serving,
)
from cuwheel.build.pipeline.package_build.dry_run import ListedCompile, run_dry
from cuwheel.build.workspace.job import Job

_LOG = "trial"  # its logs: of the list, and of each file
_IN_FOLDER = ("/bin/sh", "-c", 'cd "$0" && exec "$@"')
Part = Literal["failed before", "smallest", "heaviest", "only"]


@dataclass(frozen=True, kw_only=True)
class TriedFile:
    """A compiled file.

    Attributes:
        file: relative to the source.
        part: why it was chosen: of all CUDA files it is the smallest, the heaviest, the only one,
            or the one that failed with other settings.
        archs: that it was compiled for, `90`.
        seconds: that its compile took.
        peak_memory: bytes, of all its programs together.
    """

    file: str
    part: Part
    archs: tuple[str, ...]
    seconds: float
    peak_memory: int


@dataclass(frozen=True, kw_only=True)
class FileTrial:
    """The compiles of a trial.

    Attributes:
        files: those that compiled.
        count: how many CUDA files the package's build compiles.
        failed: the file that didn't; empty: all did.
        failure: why it didn't.
    """

    files: tuple[TriedFile, ...]
    count: int
    failed: str = ""
    failure: BuildFailedError | None = None


def try_configuration(job: Job) -> FileTrial:
    """Set a build up, which tries the framework's headers, and compile nothing of the package.

    Raises:
        CuwheelError: as `prepared_commands`.
    """
    with prepared_commands(job):
        return FileTrial(files=(), count=0)


def try_files(job: Job, failed: str = "") -> FileTrial:
    """Compile the smallest and the heaviest CUDA file of a target.

    Heaviest is what took the most memory in earlier builds, else the largest file; the stages up to
    preflight have run in the job's work folder. No compile cache is used: times are of compiles.

    Args:
        failed: a file that comes before these: it failed in a trial with other settings.

    Raises:
        BuildFailedError: the package's build compiles no CUDA file; its log is kept.
        DiskFullError: a disk ran full.
        CuwheelError: as `prepared_commands`.
    """
    job = replace(job, settings=replace(job.settings, no_cache=True))
    with prepared_commands(job) as commands, serving(job, commands):
        listed = _list_compiles(job, commands)
        tried: list[TriedFile] = []
        for part, compile_ in _chosen(job, commands, listed, failed).items():
            name = _name_of(compile_, commands)
            with job.workspace.console.live(f"compiling {name}"):
                try:
                    tried.append(_compile(job, commands, part, compile_))
                except BuildFailedError as error:
                    files = tuple(tried)
                    return FileTrial(files=files, count=len(listed), failed=name, failure=error)
        return FileTrial(files=tuple(tried), count=len(listed))


def _list_compiles(job: Job, commands: BuildCommands) -> list[ListedCompile]:
    """Return the compiles of CUDA files of the package's build, each file once."""
    dry = run_dry(job, commands, _LOG, frozenset())
    compiles: dict[str, ListedCompile] = {}
    for compile_ in dry.compiles:
        if compile_.name == "nvcc" and compile_.file.endswith(".cu"):
            compiles.setdefault(compile_.path, compile_)
    if not compiles and job.target.archs:
        raise dry.failure or BuildFailedError(
            f"{job.target.id}: its build compiles no CUDA file",
            command=(),
            status=0,
            log=job.workspace.log(_LOG),
            tail=(),
            fix="read the log: the build may have found no toolkit",
        )
    return list(compiles.values())


def _chosen(
    job: Job, commands: BuildCommands, compiles: Sequence[ListedCompile], failed: str
) -> dict[Part, ListedCompile]:
    """Return the file that failed before, the smallest file and the heaviest one, each once.

    Records of memory count only where each file has one: one that never compiled has none.
    """
    peaks: dict[str, int] = {}
    for peak, file, arch in known_peaks(job.workspace.cache / "memory", job.target.recipe.name):
        if arch:
            peaks.setdefault(file, peak)

    def size(compile_: ListedCompile) -> tuple[int, str]:
        path = commands.inputs.tree / _name_of(compile_, commands)
        return path.stat().st_size if path.is_file() else 0, compile_.file

    by_size = sorted(compiles, key=size)
    has_records = all(each.file in peaks for each in compiles)
    by_weight = sorted(by_size, key=lambda each: peaks[each.file]) if has_records else by_size
    if len(by_weight) == 1:
        return {"only": by_weight[0]}
    chosen: dict[Part, ListedCompile] = {}
    for each in compiles:
        if _name_of(each, commands) == failed:
            chosen["failed before"] = each
    if by_weight:
        ends: dict[Part, ListedCompile] = {"smallest": by_weight[0], "heaviest": by_weight[-1]}
        chosen |= {part: each for part, each in ends.items() if each not in chosen.values()}
    return chosen


def _name_of(compile_: ListedCompile, commands: BuildCommands) -> str:
    tree = commands.path_map.inside(str(commands.inputs.tree.resolve()))
    return compile_.path.removeprefix(f"{tree}/")


def _compile(job: Job, commands: BuildCommands, part: Part, compile_: ListedCompile) -> TriedFile:
    inputs, name = commands.inputs, _name_of(compile_, commands)
    program: list[str | Path] = [inputs.view / "bin" / "nvcc", *compile_.arguments]
    # The package's code may have written this: its variables are set inside of the sandbox.
    before = ("/usr/bin/env", "-i", *compile_.variables, *_IN_FOLDER, compile_.folder)
    log = f"{_LOG}-{part.split()[0]}"
    job.workspace.log(log).unlink(missing_ok=True)
    finished = run_command(job, commands, [*before, *program], log, shown=program)
    return TriedFile(
        file=name,
        part=part,
        archs=compile_.archs,
        seconds=finished.duration,
        peak_memory=finished.peak_memory,
    )
