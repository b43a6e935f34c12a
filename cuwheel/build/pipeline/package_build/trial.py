"""Compiles of single files of a package, by the command lines of its own build.

The build runs once with a launcher that makes empty objects (`build/compile/launcher/standin.py`):
that lists its command lines in seconds, whatever its build system is. Then the chosen files are
compiled by theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cuwheel.base import limits
from cuwheel.base.errors import BuildFailedError
from cuwheel.base.system.disks import DiskWatch
from cuwheel.base.system.files import disk_full
from cuwheel.base.system.process import Finished, run
from cuwheel.base.system.regular_files import parse_json, read_regular
from cuwheel.build.compile.launcher_setup import listing_variables
from cuwheel.build.compile.memory.peaks import known_peaks
from cuwheel.build.compile.memory.service import serve_memory
from cuwheel.build.pipeline.package_build.build_commands import BuildCommands, prepared_commands
from cuwheel.build.pipeline.package_build.outcome import add_cause, full_disk
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


@dataclass(frozen=True, kw_only=True)
class _Listed:
    """A compile as the launcher has listed it; its paths are those that the build sees."""

    name: str
    arguments: tuple[str, ...]
    folder: str
    file: str
    path: str
    archs: tuple[str, ...]
    variables: tuple[str, ...]


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
    target, workspace = job.target, job.workspace
    with (
        prepared_commands(job) as commands,
        serve_memory(
            commands.inputs.memory,
            workspace.cache / "memory",
            target.recipe.name,
            jobs=commands.inputs.machine.jobs,
            per_job=target.recipe.memory_per_job,
            warn=workspace.console.warn,
        ),
    ):
        listed = _list_compiles(job, commands)
        tried: list[TriedFile] = []
        for part, compile_ in _chosen(job, commands, listed, failed).items():
            name = _name_of(compile_, commands)
            with workspace.console.live(f"compiling {name}"):
                try:
                    tried.append(_compile(job, commands, part, compile_))
                except BuildFailedError as error:
                    files = tuple(tried)
                    return FileTrial(files=files, count=len(listed), failed=name, failure=error)
        return FileTrial(files=tuple(tried), count=len(listed))


def _list_compiles(job: Job, commands: BuildCommands) -> list[_Listed]:
    """Run the package's build with empty objects; return its compiles of CUDA files, each once."""
    inputs = commands.inputs
    variables = listing_variables(inputs, commands.path_map)
    failure = None
    try:
        with job.workspace.console.live("listing the compiles"):
            for step in commands.steps(job.target, job.workspace.folder("built")):
                _run(job, commands, step, variables, _LOG)
    except BuildFailedError as error:  # objects without content may not make a program
        failure = error
    compiles: dict[str, _Listed] = {}
    with suppress(OSError):
        for line in read_regular(inputs.commands_log, limit=limits.EVENTS).splitlines():
            compile_ = _read(line)
            if compile_ and compile_.name == "nvcc" and compile_.file.endswith(".cu"):
                compiles.setdefault(compile_.path, compile_)
    if not compiles and job.target.archs:
        raise failure or BuildFailedError(
            f"{job.target.id}: its build compiles no CUDA file",
            command=(),
            status=0,
            log=job.workspace.log(_LOG),
            tail=(),
            fix="read the log: the build may have found no toolkit",
        )
    return list(compiles.values())


def _read(line: bytes) -> _Listed | None:
    """Parse a line; None for one that the launcher hasn't written, or not whole."""
    try:
        content = parse_json(line)
        texts = {name: str(content[name]) for name in ("name", "folder", "file", "path")}
        lists = {
            name: tuple(map(str, content[name])) for name in ("arguments", "archs", "variables")
        }
    except (KeyError, TypeError, ValueError):
        return None
    return _Listed(**texts, **lists)  # type: ignore[arg-type]


def _chosen(
    job: Job, commands: BuildCommands, compiles: Sequence[_Listed], failed: str
) -> dict[Part, _Listed]:
    """Return the file that failed before, the smallest file and the heaviest one, each once.

    Records of memory count only where each file has one: one that never compiled has none.
    """
    peaks: dict[str, int] = {}
    for peak, file, arch in known_peaks(job.workspace.cache / "memory", job.target.recipe.name):
        if arch:
            peaks.setdefault(file, peak)

    def size(compile_: _Listed) -> tuple[int, str]:
        path = commands.inputs.tree / _name_of(compile_, commands)
        return path.stat().st_size if path.is_file() else 0, compile_.file

    by_size = sorted(compiles, key=size)
    has_records = all(each.file in peaks for each in compiles)
    by_weight = sorted(by_size, key=lambda each: peaks[each.file]) if has_records else by_size
    if len(by_weight) == 1:
        return {"only": by_weight[0]}
    chosen: dict[Part, _Listed] = {}
    for each in compiles:
        if _name_of(each, commands) == failed:
            chosen["failed before"] = each
    if by_weight:
        ends: dict[Part, _Listed] = {"smallest": by_weight[0], "heaviest": by_weight[-1]}
        chosen |= {part: each for part, each in ends.items() if each not in chosen.values()}
    return chosen


def _name_of(compile_: _Listed, commands: BuildCommands) -> str:
    tree = commands.path_map.inside(str(commands.inputs.tree.resolve()))
    return compile_.path.removeprefix(f"{tree}/")


def _compile(job: Job, commands: BuildCommands, part: Part, compile_: _Listed) -> TriedFile:
    inputs, name = commands.inputs, _name_of(compile_, commands)
    listing = tuple(listing_variables(inputs, commands.path_map))
    variables = [text for text in compile_.variables if not text.startswith(listing)]
    program: list[str | Path] = [inputs.view / "bin" / "nvcc", *compile_.arguments]
    # The package's code may have written this: its variables are set inside of the sandbox.
    before = ("/usr/bin/env", "-i", *variables, *_IN_FOLDER, compile_.folder)
    name_of_log = f"{_LOG}-{part.split()[0]}"
    finished = _run(job, commands, [*before, *program], {}, name_of_log, shown=program)
    return TriedFile(
        file=name,
        part=part,
        archs=compile_.archs,
        seconds=finished.duration,
        peak_memory=finished.peak_memory,
    )


def _run(  # noqa: PLR0913 - what to run, and how it is shown
    job: Job,
    commands: BuildCommands,
    command: Sequence[str | Path],
    variables: Mapping[str, str],
    name: str,
    *,
    shown: Sequence[str | Path] = (),
) -> Finished:
    target, inputs, log = job.target, commands.inputs, job.workspace.log(name)
    log.unlink(missing_ok=True)
    try:
        return run(
            commands.command_in(list(command), inputs.tmp),
            env={**commands.environment, **variables},
            cwd=inputs.tmp,
            log=log,
            shown=[str(word) for word in shown or command],
            error=BuildFailedError,
            what=f"{target.id}: a trial of the package's build failed",
            fix=f"read the log from the first error on; the source is in {inputs.tree}",
        )
    except BuildFailedError as error:
        watch = DiskWatch(job.workspace.work, job.workspace.cache)
        if folder := full_disk(watch, log):
            raise disk_full(folder) from error
        add_cause(error, target, inputs, log, commands.path_map.inside(str(inputs.tree)))
        raise
