"""Stage build: the package's own build, in an environment of which every variable is ours."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from typing import TYPE_CHECKING

from cuwheel import machine
from cuwheel.artefacts import BuiltWheel, Environment, Preflight, SourceTree, Toolchain
from cuwheel.buildenv import BuildInputs, private_paths, public_variables, variables
from cuwheel.errors import BuildFailedError, StageOrderError
from cuwheel.files import disk_full, naming_full_disk, remove_tree, says_disk_full
from cuwheel.process import isolation, run
from cuwheel.recipe import CMake
from cuwheel.toolbox import make_toolbox

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cuwheel.console import Live
    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_STEP = re.compile(r"\[(\d+)/(\d+)\]")  # ninja's default status, `[3/47] Building …`
_MIB = 1 << 20
_CRAMPED = 4 * _MIB  # bytes; a build that fails with less left on its disk failed for that


def build(target: Target, space: Workspace) -> BuiltWheel:
    """Run `python -m build --wheel --no-isolation` on a copy of the patched source.

    CMake is run before it where the recipe says so.

    Nothing of the caller's environment gets in, and no network where the system can cut it off.

    Raises:
        BuildFailedError: the build failed; its log and the work folder are kept.
        DiskFullError: it failed because a disk ran full.
    """
    inputs = _prepare(target, space)
    log, out = space.log("build"), space.folder("built")
    log.unlink(missing_ok=True)
    environment = variables(target, inputs)
    started = time.time()
    old_umask = os.umask(0o022)
    try:
        with space.console.live("building") as line, naming_full_disk(space.work):
            finished = [
                run(
                    [*isolation(), *command],
                    env=environment,
                    # Not the tree: Python would take a build.py of the package for the frontend.
                    cwd=inputs.tmp,
                    log=log,
                    on_line=_Progress(line, inputs.machine.jobs).see,
                    error=BuildFailedError,
                    what=f"{target.id}: the package's own build failed",
                    fix=f"read the log from its first error on; the source is in {inputs.tree}",
                )
                for command in _commands(target, inputs, environment, out)
            ]
    except BuildFailedError as error:
        if _was_disk_full(space.work, log):
            raise disk_full(space.work) from error
        raise
    finally:
        os.umask(old_umask)
    return BuiltWheel(
        path=_only_wheel(out, target, log),
        log=log,
        peak_memory=max(one.peak_memory for one in finished),
        environment=tuple(sorted(public_variables(environment, inputs).items())),
        private_paths=private_paths(target, space, inputs),
        not_hermetic=_not_hermetic(target, inputs),
        started=started,
    )


def _commands(
    target: Target, inputs: BuildInputs, environment: Mapping[str, str], out: Path
) -> list[list[str | Path]]:
    """The package's own build; before it the steps of CMake, where they are no part of it."""
    frontend = ["-m", "build", "--wheel", "--no-isolation"]
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
    """Whether the build failed for want of space; nvcc, for one, doesn't say so."""
    if machine.free_disk(work) < _CRAMPED:
        return True
    with log.open(errors="replace") as lines:
        return says_disk_full(lines)


def _prepare(target: Target, space: Workspace) -> BuildInputs:
    """Copy the patched source, so that a build that was cut off never shows in the next one."""
    patched = space.load("patch", SourceTree)
    chosen = space.load("preflight", Preflight)
    if chosen.host_compiler is None or chosen.c_compiler is None:
        raise StageOrderError(
            "preflight ran before there was a compiler",
            why="this toolchain brings its own, and wasn't there yet",
            fix="run the stages toolchain and preflight first, in this order",
        )
    for name in ("tree", "built", "home", "tmp", "toolbox"):
        remove_tree(space.work / name)
    tree = space.work / "tree" / target.recipe.folder
    with naming_full_disk(space.work):
        shutil.copytree(patched.path, tree, symlinks=True)
    return BuildInputs(
        tree=tree,
        epoch=patched.epoch,
        toolchain=space.load("toolchain", Toolchain),
        python=space.load("environment", Environment),
        machine=chosen,
        home=space.folder("home"),
        tmp=space.folder("tmp"),
        toolbox=make_toolbox(space.folder("toolbox")),
        resources=space.work / "resources",
    )


class _Progress:
    """Turns the build's output into one line: steps, time left, jobs, memory."""

    def __init__(self, line: Live, jobs: int) -> None:
        self._line = line
        self._jobs = jobs
        self._started = time.monotonic()
        self._step = ""
        self._whole = 0.0  # seconds that all steps take, guessed from those that are done

    def see(self, text: str, memory: int) -> None:
        """Take one line of output, and the bytes of memory in use."""
        spent = time.monotonic() - self._started
        found = _STEP.search(text)
        if found:
            done, total = int(found[1]), int(found[2])
            self._step = f"step {done}/{total}, "
            self._whole = spent / done * total if done else 0.0
        # One long step at the end can outlast the guess: better no time than a wrong one.
        left = f"about {_clock(self._whole - spent)} left, " if self._whole > spent else ""
        self._line.show(
            f"{self._step}{left}{_clock(spent)} so far, {self._jobs} jobs, {memory // _MIB} MiB"
        )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _only_wheel(out: Path, target: Target, log: Path) -> Path:
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) == 1:
        return wheels[0]
    raise BuildFailedError(
        f"{target.id}: the build left {len(wheels)} wheels, not one",
        command=(),
        status=0,
        log=log,
        tail=[wheel.name for wheel in wheels],
        why="cuwheel publishes one wheel for each target",
        fix="look into the log; the package's build may have stopped early",
    )


def _not_hermetic(target: Target, inputs: BuildInputs) -> tuple[str, ...]:
    facts = []
    if not inputs.machine.host_compiler_pinned:
        compiler = inputs.machine.host_compiler_version
        facts.append(f"the host compiler comes from the machine: {compiler}")
    if not isolation():
        facts.append("the build could reach the network: this system refuses network namespaces")
    if not inputs.toolchain.pinned:
        facts.append(f"the CUDA toolkit comes from the machine: {inputs.toolchain.version}")
    if target.source_override:
        facts.append("the source was given with --source")
    return tuple(facts)
