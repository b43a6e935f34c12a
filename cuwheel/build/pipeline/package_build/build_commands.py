"""The commands of a package's build, with the folders, variables and programs that they get."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cuwheel.base.errors import BuildFailedError
from cuwheel.base.system.disks import DiskWatch
from cuwheel.base.system.files import disk_full, remove_tree
from cuwheel.base.system.process import Finished, run
from cuwheel.build.compile.build_mounts import build_path_map
from cuwheel.build.compile.cache.compile_cache import CompileCache, choose_compile_cache
from cuwheel.build.compile.cache.room import remove_traps
from cuwheel.build.compile.environment import BuildInputs, variables
from cuwheel.build.compile.launcher_setup import Launcher, device_code_variables, set_up_launcher
from cuwheel.build.compile.memory.service import MEMORY_SOCKET, serve_memory
from cuwheel.build.pipeline.package_build.outcome import add_cause, full_disk
from cuwheel.build.pipeline.package_build.progress import Progress
from cuwheel.build.pipeline.package_build.requirements import check_backend_requirements
from cuwheel.build.pipeline.package_build.unpinned_programs import refuse_unpinned
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
from cuwheel.build.workspace.records import Environment, Preflight, SourceTree, Toolchain

_FOLDERS = (
    *("tree", "built", "home", "tmp", "cuda", "launcher", "events", "cache"),
    *("target-python", "target-libraries"),
)


class BuildCommands(NamedTuple):
    """Environment and arguments of the build's commands; `variables` have this machine's paths."""

    inputs: BuildInputs
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

    def command_in(self, command: Sequence[str | Path], folder: Path) -> list[str]:
        """Return a command in the sandbox, with the cache's server."""
        within = self.cache.supervised(map(str, command), self.launcher.python)
        return self.path_map.command(within, folder)

    def steps(self, target: Target, out: Path) -> list[list[str | Path]]:
        """Return the commands: CMake's steps, where they are separate, then the package's build."""
        inputs = self.inputs
        # The requirements have been checked; a second check would import PyTorch again.
        frontend = ["-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check"]
        wheel: list[str | Path] = [inputs.python.python, *frontend, "--outdir", out, inputs.tree]
        declared = target.recipe.build
        if not isinstance(declared, CMake) or not declared.install:
            return [wheel]
        folder = inputs.build_folders[1]
        options = shlex.split(self.variables["CMAKE_ARGS"])
        return [
            ["cmake", "-S", inputs.tree, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *options],
            ["cmake", "--build", folder],
            ["cmake", "--install", folder],
            wheel,
        ]


@contextlib.contextmanager
def serving(job: Job, commands: BuildCommands) -> Iterator[Callable[[], bool]]:
    """Serve the remote cache and the memory gates of a build until the block ends.

    Yields:
        A function that returns True once an entry of the remote cache has turned out to be wrong.
    """
    workspace, recipe = job.workspace, job.target.recipe
    with (
        commands.cache.remote_served(workspace, commands.launcher.fingerprint) as is_poisoned,
        serve_memory(
            commands.inputs.memory,
            workspace.cache / "memory",
            recipe.name,
            jobs=commands.inputs.machine.jobs,
            per_job=recipe.memory_per_job,
            warn=workspace.console.warn,
        ),
    ):
        yield is_poisoned


def watch_disks(job: Job, commands: BuildCommands) -> DiskWatch:
    """Return a watch of all disks that a build writes to."""
    return DiskWatch(job.workspace.work, job.workspace.cache, commands.cache.folder)


def run_command(  # noqa: PLR0913 - what to run, and how it is shown
    job: Job,
    commands: BuildCommands,
    command: Sequence[str | Path],
    log_name: str,
    *,
    variables: Mapping[str, str] | None = None,
    shown: Sequence[str | Path] = (),
    what: str = "a trial of the package's build failed",
    progress: Progress | None = None,
    gives_up: Callable[[], bool] = lambda: False,
) -> Finished:
    """Run a command of a package's build in the sandbox, and add its output to a log.

    Raises:
        BuildFailedError: it failed.
        DiskFullError: it failed because a disk ran full.
    """
    target, inputs, log = job.target, commands.inputs, job.workspace.log(log_name)
    watch = progress.watch if progress else watch_disks(job, commands)
    try:
        return run(
            # Not in the tree: Python would take a build.py of the package for the frontend.
            commands.command_in(command, inputs.tmp),
            env={**commands.environment, **(variables or {})},
            cwd=inputs.tmp,
            log=log,
            on_line=progress.see if progress else None,
            gives_up=lambda _: gives_up(),
            shown=[str(word) for word in shown or command],
            error=BuildFailedError,
            what=f"{target.id}: {what}",
            fix=f"read the log from the first error on; the source is in {inputs.tree}",
        )
    except BuildFailedError as error:
        if folder := full_disk(watch, log):
            raise disk_full(folder) from error
        add_cause(error, target, inputs, log, commands.path_map.inside(str(inputs.tree)))
        raise


@contextlib.contextmanager
def prepared_commands(job: Job) -> Iterator[BuildCommands]:
    """Set up folders and launcher of a build, on a copy of the patched source.

    Raises:
        PreflightError: a lock lacks a requirement of the package's backend, or the framework's
            headers don't compile with the C++ that the build sets.
        UsageError: an earlier stage has left nothing.
        CuwheelError: the compile cache's settings are wrong, or this nvcc compiles nothing.
    """
    target, workspace = job.target, job.workspace
    with make_socket_folder(workspace.work, is_sandboxed=job.sandbox != "none") as sockets:
        inputs = _prepare(job, sockets / MEMORY_SOCKET)
        cache = choose_compile_cache(job, sockets, workspace.environ)
        path_map = build_path_map(workspace, inputs, cache, job.sandbox)
        launcher = set_up_launcher(workspace, inputs, path_map, cache, target.cxx_standard)
        remove_traps(cache.folder)
        refuse_unpinned(target, inputs, path_map)
        plain = variables(target, inputs)
        commands = BuildCommands(inputs, path_map, cache, launcher, target.platform, plain)
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
        yield commands


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
