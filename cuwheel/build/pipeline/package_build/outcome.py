"""The outcome of a package's build: why it failed, and what of it was not under control."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from cuwheel.base.errors import BuildFailedError, FirstError
from cuwheel.base.system import machine
from cuwheel.base.system.compilers import read_compiler
from cuwheel.base.system.disks import DiskWatch
from cuwheel.base.system.files import has_disk_full_message
from cuwheel.base.system.regular_files import open_file
from cuwheel.build.compile.cache.compile_cache import CompileCache
from cuwheel.build.compile.cache.statistics import read_statistics
from cuwheel.build.compile.canary import Canary
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.compile.events import DIRECT_MODE, Events
from cuwheel.build.pipeline.package_build.unpinned_programs import (
    PINNABLE,
    called_unpinned,
    describe_unpinned,
)
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.path_map import PathMap
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import SourceTree
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.explain.compiler_error import first_compiler_error
from cuwheel.check.explain.torch_facts import installed_torch_facts


def add_cause(
    error: BuildFailedError, target: Target, inputs: BuildInputs, log: Path, tree: str
) -> None:
    """Complete the error of a failed build with the cause that its log shows.

    Args:
        tree: path of the source as the build sees it.
    """
    cxx, driver = inputs.machine.host_compiler, machine.driver_version()
    compiler = read_compiler(cxx) if cxx else None
    error.known = {  # of this build, for templates of the catalogue of causes
        "cuda": target.toolkit.release,
        "python": target.python,
        **({"gcc": str(compiler.major)} if compiler else {}),
        "driver": driver or "none",
        **installed_torch_facts(inputs.python.site_packages),
    }
    error.first = _first_error(log, target, tree)
    if called := called_unpinned(inputs):
        error.fix = f"{describe_unpinned(target, called)}; otherwise {error.fix}"


def full_disk(watch: DiskWatch, log: Path) -> Path | None:
    """Return a folder on the disk that made the build fail; None: it failed for another reason.

    nvcc, for one, doesn't print that a disk is full.
    """
    if folder := watch.full:
        return folder
    if not log.is_file():  # nothing could be started
        return None
    with io.TextIOWrapper(open_file(log), errors="replace") as lines:
        return watch.fullest if has_disk_full_message(lines) else None


def warn_of_cache_failure(
    workspace: Workspace, inputs: BuildInputs, cache: CompileCache, events: Events
) -> None:
    """Warn once of a cache that fails; the relay of a remote one warns itself."""
    statistics = read_statistics(inputs.events)
    was_used = any(compile_.cached != DIRECT_MODE for compile_ in events.compiles)
    calls = statistics.total() - statistics["errors"]
    if cache.program.name and was_used and not calls:
        workspace.console.warn(
            f"{cache.program.name} did nothing in this build, so everything was compiled and "
            f"nothing was kept: check its messages in {workspace.log('build')}"
        )
    elif (errors := statistics["errors"]) and cache.remote is None:
        times = "once" if errors == 1 else f"{errors} times"
        workspace.console.warn(
            f"the compile cache failed {times}, so more was compiled than necessary: check whether "
            f"the disk of {cache.folder} is full, or disable the cache: -- --no-cache"
        )


def _first_error(log: Path, target: Target, tree: str) -> FirstError | None:
    """Return a compiler's first error, with the file's name as the user knows it.

    It is the path in the caller's folder, where the source is one; else relative to the source.
    """
    first = first_compiler_error(log) if log.is_file() else None
    if first is None or not first.file:
        return first
    relative = first.file.removeprefix(f"{tree}/")
    folder = target.source_folder
    path = folder / relative if folder else None
    return dataclasses.replace(
        first,
        file=str(path) if path and path.is_file() else relative,
        text=first.text.replace(first.file, relative, 1),
    )


def not_hermetic(
    job: Job, inputs: BuildInputs, path_map: PathMap, canary: Canary
) -> tuple[str, ...]:
    """Return one line for each part of a build that no lock or digest pins."""
    facts = []
    is_pinned = job.machine.image is not None  # all of the machine, by the image's digest
    if not inputs.machine.host_compiler_pinned and not is_pinned:
        compiler = inputs.machine.host_compiler_version
        facts.append(f"the host compiler comes from the machine: {compiler}")
    if job.machine.target_root:
        platform = job.target.platform.name
        facts.append(f"Python's headers and settings come from a root folder of {platform}")
    if not path_map.is_sandboxed:
        why = "not requested" if job.settings.sandbox == "none" else "the system refuses namespaces"
        reached = "the network and other files" if machine.has_network() else "other files"
        facts.append(f"no sandbox ({why}): the build could reach {reached}")
        if canary.by_path:
            kinds = ", ".join(canary.by_path)
            facts.append(f"nvcc writes the build folder into objects: {kinds}")
    if canary.always:
        facts.append(
            f"nvcc makes different objects from the same source: {', '.join(canary.always)}"
        )
    if not inputs.toolchain.pinned and not is_pinned:
        facts.append(f"the CUDA toolkit comes from the machine: {inputs.toolchain.version}")
    if not is_pinned:
        programs = ", ".join(PINNABLE)
        facts.append(f"programs in the machine's /usr/bin can be called, except {programs}")
    if job.target.source_override:
        state = job.workspace.load("patch", SourceTree).state
        facts.append(f"the source was given with --source{f' ({state})' if state else ''}")
    return tuple(facts)
