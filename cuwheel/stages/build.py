"""Stage build: the package's own build, in an environment of which every variable is ours."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import time
from typing import TYPE_CHECKING, NamedTuple

from cuwheel import limits
from cuwheel.build.compile_cache.choice import choose_compile_cache, serve_remote_cache
from cuwheel.build.compile_cache.device_code import device_code_variables
from cuwheel.build.compile_cache.folders import make_socket_folder
from cuwheel.build.compile_cache.room import remove_traps
from cuwheel.build.compile_cache.statistics import read_statistics
from cuwheel.build.environment import BuildInputs, variables
from cuwheel.build.launcher.events import DIRECT_MODE, EVENTS_LOG, hit_counts, read_events
from cuwheel.build.launcher.memory_service import MEMORY_SOCKET, serve_memory
from cuwheel.build.launcher_setup import set_up_launcher
from cuwheel.build.paths import build_path_map, private_paths
from cuwheel.build.progress import Progress
from cuwheel.build.requirements import check_backend_requirements
from cuwheel.build.unpinned_programs import (
    PINNABLE,
    called_unpinned,
    refuse_unpinned,
    say_unpinned,
)
from cuwheel.cross.python_settings import write_python_settings
from cuwheel.cross.root_libraries import write_libraries
from cuwheel.errors import BuildFailedError
from cuwheel.explain.compiler_error import first_compiler_error
from cuwheel.model.recipe import CMake
from cuwheel.system import machine
from cuwheel.system.compilers import read_compiler
from cuwheel.system.files import disk_full, naming_full_disk, remove_tree, says_disk_full
from cuwheel.system.process import run
from cuwheel.system.regular_files import is_regular, read_regular
from cuwheel.toolchains.system_programs import obtain_toolbox
from cuwheel.workspace.problems import raise_problems
from cuwheel.workspace.records import BuiltWheel, Environment, Preflight, SourceTree, Toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cuwheel.build.compile_cache.choice import CacheChoice
    from cuwheel.build.launcher.canary import Canary
    from cuwheel.build.launcher.events import Events
    from cuwheel.build.launcher_setup import Launcher
    from cuwheel.errors import FirstError
    from cuwheel.model.platform import Platform
    from cuwheel.model.target import Target
    from cuwheel.sandbox.path_map import PathMap
    from cuwheel.system.process import Finished
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


_MIB = 1 << 20
_FOLDERS = (
    *("tree", "built", "home", "tmp", "cuda", "launcher", "events", "cache"),
    *("target-python", "target-libraries"),
)
_NEARLY_FULL = 4 * _MIB  # bytes; a build that fails with less left on its disk failed for that


def build(job: Job) -> BuiltWheel:
    """Run `python -m build --wheel --no-isolation` on a copy of the patched source.

    CMake is run before it where the recipe says so.

    Nothing of the caller's environment gets in. In a sandbox the build sees its folders at the same
    paths on every machine, and no network; the compiler launcher stands before each compiler.

    Raises:
        PreflightError: the package's backend says that a lock lacks something.
        BuildFailedError: the build failed; its log and the work folder are kept.
        DiskFullError: it failed because a disk ran full.
        SandboxError: the sandbox that was asked for doesn't work here.
    """
    target, workspace = job.target, job.workspace
    with make_socket_folder(workspace.work, is_sandboxed=job.sandbox != "none") as sockets:
        inputs = _prepare(job, sockets / MEMORY_SOCKET)
        choice = choose_compile_cache(job, sockets, os.environ)
        path_map = build_path_map(workspace, inputs, choice.paths, job.sandbox)
        launcher = set_up_launcher(workspace, inputs, path_map, choice)
        remove_traps(choice.paths.cache_folder)
        started = time.time()
        refuse_unpinned(target, inputs, path_map)
        stated = variables(target, inputs)
        how = _Run(path_map, choice, launcher, target.platform, stated)
        raise_problems(
            check_backend_requirements(
                target,
                inputs,
                path_map,
                how.inside,
                log=workspace.log("backend"),
                kept=workspace.cache / "backends" if job.settings.reuse else None,
            ),
            target.id,
        )
        finished = _run_all(target, workspace, inputs, how)
    log = workspace.log("build")
    events = read_events(inputs.events_log)
    was_asked = any(one.cached != DIRECT_MODE for one in events.compiles)
    _warn_of_cache_failure(workspace, inputs, choice, was_asked=was_asked)
    choice.tidy_up()
    _note_dropped_options(workspace, events)
    if called := called_unpinned(inputs):
        workspace.console.warn(
            "the package's build continued without programs of the machine: "
            f"{say_unpinned(target, called)}"
        )
    neutral = {name: path_map.neutral(value) for name, value in stated.items()}
    return BuiltWheel(
        path=_only_wheel(workspace.folder("built"), target, log),
        log=log,
        peak_memory=max(one.peak_memory for one in finished),
        environment=tuple(sorted(neutral.items())),
        private_paths=private_paths(target, workspace, inputs),
        not_hermetic=_not_hermetic(job, inputs, path_map, launcher.canary),
        started=started,
        cache=f"{choice.cache.name} {choice.cache.version}".strip(),
        compiles=sum(count.compiles for count in hit_counts(events)),
        hits=len(events.hits()),
        shared=events.shared,
    )


def _warn_of_cache_failure(
    workspace: Workspace, inputs: BuildInputs, choice: CacheChoice, *, was_asked: bool
) -> None:
    """One warning for a cache that fails; for a remote one its relay has its own."""
    statistics = read_statistics(inputs.events)
    if choice.cache.name and was_asked and not statistics.calls:
        workspace.console.warn(
            f"{choice.cache.name} did nothing in this build, so everything was compiled and "
            f"nothing was kept: check its messages in {workspace.log('build')}"
        )
    elif statistics.errors and choice.remote is None:
        times = "once" if statistics.errors == 1 else f"{statistics.errors} times"
        workspace.console.warn(
            f"the compile cache failed {times}, so more was compiled than necessary: check whether "
            f"the disk of {choice.paths.cache_folder} is full, or disable the cache: -- --no-cache"
        )


def _note_dropped_options(workspace: Workspace, events: Events) -> None:
    if dropped := sorted({option for one in events.compiles for option in one.dropped}):
        workspace.console.note(
            f"the package passes {' and '.join(dropped)} to nvcc, which was removed: it writes "
            "paths and times of the sources into the objects, and doesn't change the code"
        )


class _Run(NamedTuple):
    """How the build's commands are run."""

    path_map: PathMap
    choice: CacheChoice
    launcher: Launcher
    platform: Platform
    variables: dict[str, str]

    @property
    def inside(self) -> dict[str, str]:
        """The build's variables, as it sees them."""
        return {name: self.path_map.inside(value) for name, value in self.variables.items()}

    @property
    def environment(self) -> dict[str, str]:
        """What they see: the build's variables, and the compile cache's."""
        inside = self.inside
        of_cache = self.choice.cache.variables(
            self.choice.inside(self.path_map),
            fingerprint=self.launcher.fingerprint,
            epoch=int(inside["SOURCE_DATE_EPOCH"]),
            with_remote=self.choice.remote is not None,
        )
        of_device_code = device_code_variables(
            self.choice, self.path_map, self.launcher.canary, self.platform
        )
        return {**inside, **of_cache, **of_device_code}

    def words(self, command: list[str | Path], folder: Path) -> list[str]:
        """One of them, with the sandbox around it and the cache's server beside it."""
        within = self.choice.cache.supervised(
            map(str, command), self.choice.paths, self.launcher.python
        )
        return self.path_map.command(within, folder)


def _run_all(
    target: Target, workspace: Workspace, inputs: BuildInputs, how: _Run
) -> list[Finished]:
    log, out = workspace.log("build"), workspace.folder("built")
    log.unlink(missing_ok=True)
    (workspace.log_folder / EVENTS_LOG).unlink(missing_ok=True)
    old_umask = os.umask(0o022)
    try:
        with (
            serve_remote_cache(how.choice, workspace),
            serve_memory(
                inputs.memory,
                workspace.cache / "memory",
                target.recipe.name,
                inputs.machine.jobs,
                workspace.console.warn,
            ),
            workspace.console.live("building") as line,
            naming_full_disk(workspace.work),
        ):
            return [
                run(
                    # Not in the tree: Python would take a build.py of the package for the frontend.
                    how.words(command, inputs.tmp),
                    env=how.environment,
                    cwd=inputs.tmp,
                    log=log,
                    on_line=Progress(line, inputs.machine.jobs, inputs.events_log).see,
                    shown=[str(word) for word in command],
                    error=BuildFailedError,
                    what=f"{target.id}: the package's own build failed",
                    fix=f"read the log from the first error on; the source is in {inputs.tree}",
                )
                for command in _commands(target, inputs, how.variables, out)
            ]
    except BuildFailedError as error:
        if _was_disk_full(workspace.work, log):
            raise disk_full(workspace.work) from error
        error.known = _known(target, inputs)
        error.first = _first_error(log, target, how.path_map.inside(str(inputs.tree)))
        if called := called_unpinned(inputs):
            error.fix = f"{say_unpinned(target, called)}; otherwise {error.fix}"
        raise
    finally:
        os.umask(old_umask)
        _keep_events(workspace, inputs)


def _first_error(log: Path, target: Target, tree: str) -> FirstError | None:
    """What a compiler said first, by the names of files that a person knows.

    The file itself is that in the caller's folder, where the source is one; else it is relative.
    """
    first = first_compiler_error(log) if log.is_file() else None
    if first is None or not first.file:
        return first
    own = first.file.removeprefix(f"{tree}/")
    folder = target.source_folder
    there = folder / own if folder else None
    return dataclasses.replace(
        first,
        file=str(there) if there and there.is_file() else own,
        text=first.text.replace(first.file, own, 1),
    )


def _known(target: Target, inputs: BuildInputs) -> dict[str, str]:
    """What helps to explain the log, by the names that templates of the catalogue use."""
    cxx, driver = inputs.machine.host_compiler, machine.driver_version()
    compiler = read_compiler(cxx) if cxx else None
    return {
        "cuda": target.toolkit.release,
        "python": target.python,
        **({"gcc": str(compiler.major)} if compiler else {}),
        **({"driver": driver} if driver else {}),
    }


def _keep_events(workspace: Workspace, inputs: BuildInputs) -> None:
    """Put the launcher's log among the logs, which stay; a build that failed has one too."""
    try:
        written = read_regular(inputs.events_log, limit=limits.EVENTS)
    except OSError:
        return
    (workspace.folder("logs") / EVENTS_LOG).write_bytes(written)


def _commands(
    target: Target, inputs: BuildInputs, environment: Mapping[str, str], out: Path
) -> list[list[str | Path]]:
    """The package's own build; before it the steps of CMake, where they are no part of it."""
    # What the package requires has been checked; asking again would import PyTorch again.
    frontend = ["-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check"]
    wheel: list[str | Path] = [inputs.python.python, *frontend, "--outdir", out, inputs.tree]
    declared = target.recipe.build
    if not isinstance(declared, CMake) or not declared.install:
        return [wheel]
    made = inputs.tmp / "cmake"
    definitions = ["-DCMAKE_BUILD_TYPE=Release", *shlex.split(environment["CMAKE_ARGS"])]
    return [
        ["cmake", "-S", inputs.tree, "-B", made, *definitions],
        ["cmake", "--build", made],
        ["cmake", "--install", made],
        wheel,
    ]


def _was_disk_full(work: Path, log: Path) -> bool:
    """Whether a full disk made the build fail; nvcc, for one, doesn't say so."""
    if machine.free_disk(work) < _NEARLY_FULL:
        return True
    if not log.is_file():  # nothing could be started
        return False
    with log.open(errors="replace") as lines:
        return says_disk_full(lines)


def _prepare(job: Job, memory: Path) -> BuildInputs:
    """Copy the patched source, so that a build that was cut off never shows in the next one."""
    target, workspace = job.target, job.workspace
    patched = workspace.load("patch", SourceTree)
    if not patched.path.is_dir():
        raise workspace.left_nothing("patch")
    for name in _FOLDERS:
        remove_tree(workspace.work / name)
    tree = workspace.work / "tree" / target.recipe.folder
    with naming_full_disk(workspace.work):
        shutil.copytree(patched.path, tree, symlinks=True)
    target_python = workspace.work / "target-python"
    if job.machine.target_root:
        write_python_settings(workspace.folder("target-python"), job.machine.target_root)
        if target.system_packages:
            folder = workspace.folder("target-libraries")
            write_libraries(folder, job.machine.target_root, target.platform)
    return BuildInputs(
        tree=tree,
        epoch=patched.epoch,
        toolchain=workspace.load("toolchain", Toolchain),
        python=workspace.load("environment", Environment),
        machine=workspace.load("preflight", Preflight),
        home=workspace.folder("home"),
        tmp=workspace.folder("tmp"),
        toolbox=obtain_toolbox(workspace),
        resources=workspace.work / "resources",
        view=workspace.folder("cuda"),
        launcher=workspace.folder("launcher"),
        events=workspace.folder("events"),
        memory=memory,
        target_python=target_python,
        target_libraries=workspace.work / "target-libraries",
    )


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


def _not_hermetic(
    job: Job, inputs: BuildInputs, path_map: PathMap, canary: Canary
) -> tuple[str, ...]:
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
        facts.append("the source was given with --source")
    return tuple(facts)
