"""Stage build: the package's own build, in an environment with no variable of the caller."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cuwheel.base import limits
from cuwheel.base.errors import BuildFailedError
from cuwheel.base.system.files import disk_full, remove_tree
from cuwheel.base.system.process import Finished, run
from cuwheel.base.system.regular_files import is_regular, read_regular
from cuwheel.build.compile.build_mounts import build_path_map, private_paths
from cuwheel.build.compile.cache.compile_cache import CompileCache, choose_compile_cache
from cuwheel.build.compile.cache.room import remove_traps
from cuwheel.build.compile.cache.statistics import read_statistics
from cuwheel.build.compile.environment import BuildInputs, variables
from cuwheel.build.compile.events import DIRECT_MODE, EVENTS_LOG, Events, hit_counts, read_events
from cuwheel.build.compile.launcher_setup import Launcher, device_code_variables, set_up_launcher
from cuwheel.build.compile.memory.service import MEMORY_SOCKET, serve_memory
from cuwheel.build.pipeline.package_build.outcome import add_cause, not_hermetic, was_disk_full
from cuwheel.build.pipeline.package_build.progress import Progress
from cuwheel.build.pipeline.package_build.requirements import check_backend_requirements
from cuwheel.build.pipeline.package_build.unpinned_programs import (
    called_unpinned,
    describe_unpinned,
    refuse_unpinned,
)
from cuwheel.build.recipe.platform import Platform
from cuwheel.build.recipe.recipe import CMake
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.path_map import PathMap
from cuwheel.build.sandbox.unix_server import make_socket_folder
from cuwheel.build.toolchains.cross.root_libraries import write_libraries
from cuwheel.build.toolchains.cross.target_root import write_python_settings
from cuwheel.build.toolchains.system_programs import obtain_toolbox
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.problems import raise_problems
from cuwheel.build.workspace.records import (
    BuiltWheel,
    Environment,
    Preflight,
    SourceTree,
    Toolchain,
)
from cuwheel.build.workspace.workspace import Workspace

_FOLDERS = (
    *("tree", "built", "home", "tmp", "cuda", "launcher", "events", "cache"),
    *("target-python", "target-libraries"),
)


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
    with make_socket_folder(workspace.work, is_sandboxed=job.sandbox != "none") as sockets:
        inputs = _prepare(job, sockets / MEMORY_SOCKET)
        cache = choose_compile_cache(job, sockets, workspace.environ)
        path_map = build_path_map(workspace, inputs, cache, job.sandbox)
        launcher = set_up_launcher(workspace, inputs, path_map, cache, target.cxx_standard)
        remove_traps(cache.folder)
        started = time.time()
        refuse_unpinned(target, inputs, path_map)
        plain = variables(target, inputs)
        commands = _Commands(path_map, cache, launcher, target.platform, plain)
        raise_problems(
            check_backend_requirements(
                target,
                inputs,
                path_map,
                commands.inside,
                log=workspace.log("backend"),
                cache=workspace.cache,
            ),
            target.id,
        )
        finished = _run_all(target, workspace, inputs, commands)
    log = workspace.log("build")
    events = read_events(inputs.events_log)
    _warn_of_cache_failure(workspace, inputs, cache, events)
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
    neutral = {name: path_map.neutral(value) for name, value in plain.items()}
    return BuiltWheel(
        path=_only_wheel(workspace.folder("built"), target, log),
        log=log,
        peak_memory=max(result.peak_memory for result in finished),
        environment=tuple(sorted(neutral.items())),
        private_paths=private_paths(target, workspace, inputs),
        not_hermetic=not_hermetic(job, inputs, path_map, launcher.canary),
        started=started,
        cache=f"{cache.program.name} {cache.program.version}".strip(),
        compiles=sum(count.compiles for count in hit_counts(events)),
        hits=len(events.hits()),
        shared=events.shared,
    )


def _warn_of_cache_failure(
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


class _Commands(NamedTuple):
    """Environment and arguments of the build's commands."""

    path_map: PathMap
    cache: CompileCache
    launcher: Launcher
    platform: Platform
    variables: dict[str, str]

    @property
    def inside(self) -> dict[str, str]:
        """The build's variables, as it sees them."""
        return {name: self.path_map.inside(value) for name, value in self.variables.items()}

    @property
    def environment(self) -> dict[str, str]:
        """The build's variables, and the compile cache's, as the commands see them."""
        epoch = int(self.variables["SOURCE_DATE_EPOCH"])
        of_cache = self.cache.variables(fingerprint=self.launcher.fingerprint, epoch=epoch)
        of_device_code = device_code_variables(
            self.cache, self.path_map, self.launcher.canary, self.platform
        )
        inside = {name: self.path_map.inside(value) for name, value in of_cache.items()}
        return {**self.inside, **inside, **of_device_code}

    def argv(self, command: list[str | Path], folder: Path) -> list[str]:
        """Return a command in the sandbox, with the cache's server."""
        within = self.cache.supervised(map(str, command), self.launcher.python)
        return self.path_map.command(within, folder)


def _run_all(
    target: Target, workspace: Workspace, inputs: BuildInputs, commands: _Commands
) -> list[Finished]:
    log, out = workspace.log("build"), workspace.folder("built")
    log.unlink(missing_ok=True)
    (workspace.log_folder / EVENTS_LOG).unlink(missing_ok=True)
    old_umask = os.umask(0o022)
    try:
        with (
            commands.cache.remote_served(workspace),
            serve_memory(
                inputs.memory,
                workspace.cache / "memory",
                target.recipe.name,
                jobs=inputs.machine.jobs,
                per_job=target.recipe.memory_per_job,
                warn=workspace.console.warn,
            ),
            workspace.console.live("building") as line,
        ):
            return [
                run(
                    # Not in the tree: Python would take a build.py of the package for the frontend.
                    commands.argv(command, inputs.tmp),
                    env=commands.environment,
                    cwd=inputs.tmp,
                    log=log,
                    on_line=Progress(line, inputs.machine.jobs).see,
                    shown=[str(word) for word in command],
                    error=BuildFailedError,
                    what=f"{target.id}: the package's own build failed",
                    fix=f"read the log from the first error on; the source is in {inputs.tree}",
                )
                for command in _steps(target, inputs, commands.variables, out)
            ]
    except BuildFailedError as error:
        if was_disk_full(workspace.work, log):
            raise disk_full(workspace.work) from error
        tree = commands.path_map.inside(str(inputs.tree))
        add_cause(error, target, inputs, log, tree)
        raise
    finally:
        os.umask(old_umask)
        with contextlib.suppress(OSError):  # a build that fails early has none
            content = read_regular(inputs.events_log, limit=limits.EVENTS)
            (workspace.folder("logs") / EVENTS_LOG).write_bytes(content)


def _steps(
    target: Target, inputs: BuildInputs, environment: Mapping[str, str], out: Path
) -> list[list[str | Path]]:
    """Return the commands: CMake's steps, where they are separate, then the package's build."""
    # The requirements have been checked; a second check would import PyTorch again.
    frontend = ["-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check"]
    wheel: list[str | Path] = [inputs.python.python, *frontend, "--outdir", out, inputs.tree]
    declared = target.recipe.build
    if not isinstance(declared, CMake) or not declared.install:
        return [wheel]
    folder = inputs.tmp / "cmake"
    definitions = ["-DCMAKE_BUILD_TYPE=Release", *shlex.split(environment["CMAKE_ARGS"])]
    return [
        ["cmake", "-S", inputs.tree, "-B", folder, *definitions],
        ["cmake", "--build", folder],
        ["cmake", "--install", folder],
        wheel,
    ]


def _prepare(job: Job, memory: Path) -> BuildInputs:
    """Copy the patched source: a build that was cut off leaves nothing for the next one."""
    target, workspace = job.target, job.workspace
    patched = workspace.load("patch", SourceTree)
    if not patched.path.is_dir():
        raise workspace.left_nothing("patch")
    for name in _FOLDERS:
        remove_tree(workspace.work / name)
    tree = workspace.work / "tree" / target.recipe.folder
    shutil.copytree(patched.path, tree, symlinks=True)
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
        target_python=workspace.work / "target-python",
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
