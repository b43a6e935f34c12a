"""Builds without cuwheel's launcher and sandbox, of the same source with the same things.

The package's own frontend, and fromager. Both get the toolchain, the Python packages, the patched
source, the flags and the number of jobs that cuwheel's build gets.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.records import Turn, watched
from cuwheel.base.caller import read_caller
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import Finished, run
from cuwheel.build.compile.build_mounts import prefix_of
from cuwheel.build.compile.canary import run_canary
from cuwheel.build.compile.environment import BuildInputs, variables
from cuwheel.build.compile.toolkit_view import ViewPaths, fingerprint_of
from cuwheel.build.environments.uv import install, make_environment
from cuwheel.build.pipeline.pipeline import run_stage
from cuwheel.build.recipe.recipe import CMake
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.system_programs import obtain_toolbox
from cuwheel.build.workspace.records import Environment, Preflight, SourceTree, Toolchain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.cli.dispatch import parser_of
from cuwheel.cli.target_choice import named_targets, request_of, requested_jobs

FROMAGER_LOCK = Path(__file__).parent / "fromager.lock"

_BEFORE_BUILD = ("source", "patch", "toolchain", "environment", "preflight")
_AFTER_SOURCE = ("prepare-build", "build-sdist", "build-wheel")
# What uv needs to reach an index; the build itself gets none of it.
_NETWORK = ("UV_", "SSL_", "HTTP", "http", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A target with all that its build needs, downloaded and checked.

    Attributes:
        target: what is built.
        source: patched.
        toolchain: the CUDA home.
        python: the environment with the build requirements.
        machine: what preflight chose.
        workspace: the folders in which it was prepared.
    """

    target: Target
    source: SourceTree
    toolchain: Toolchain
    python: Environment
    machine: Preflight
    workspace: Workspace

    @property
    def compilers(self) -> tuple[Path, Path]:
        """The host's C and C++ compiler.

        Raises:
            UsageError: preflight has found none.
        """
        cc, cxx = self.machine.c_compiler, self.machine.host_compiler
        if cc is None or cxx is None:
            raise UsageError("there is no host compiler", why="preflight found none")
        return cc, cxx

    def places(self, folder: Path) -> ViewPaths:
        """Where a view of the toolkit stands in a folder, and what it refers to."""
        cc, cxx = self.compilers
        return ViewPaths(
            view=folder / "cuda",
            launcher=folder / "launcher",
            toolkit=self.toolchain.home,
            python=self.python.base_python.resolve(),
            cc=cc,
            cxx=cxx,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that compiles."""
        banner = self.machine.host_compiler_version
        return fingerprint_of(self.toolchain.fingerprint, self.compilers[1], banner)


def prepare(command: Sequence[str], folder: Path, jobs: int, console: Console) -> Prepared:
    """Run the stages before `build`, and have the toolchain proven, so that no build pays for it.

    Args:
        command: target and options of the `build` command, with `--python`.
        folder: for its work folder.
        jobs: compiles at once.
        console: shows how it goes.

    Raises:
        CuwheelError: of the stage that failed.
    """
    work = folder / "prepared"
    options = ("--jobs", str(jobs), "--work", str(work), "--dist", str(work / "dist"))
    given = parser_of("build").parse([*command, *options])
    caller = read_caller()
    [(entry, tag)] = named_targets("bench", given.targets, caller)
    [job] = requested_jobs(entry, tag, request_of(given, caller), console, caller)
    target, workspace = job.target, job.workspace
    for stage in _BEFORE_BUILD:
        run_stage(stage, job)
    prepared = Prepared(
        target=target,
        source=workspace.load("patch", SourceTree),
        toolchain=workspace.load("toolchain", Toolchain),
        python=workspace.load("environment", Environment),
        machine=workspace.load("preflight", Preflight),
        workspace=workspace,
    )
    run_canary(prepared.places(workspace.folder("unused")), prepared.fingerprint, workspace.cache)
    return prepared


def build_raw(prepared: Prepared, folder: Path) -> Turn:
    """Run `python -m build` as cuwheel does, with nothing around it.

    Args:
        prepared: the target.
        folder: everything of the run goes there; it is emptied.

    Raises:
        CommandFailedError: the build failed; its log is in the folder.
        UsageError: the recipe has more steps than that one.
    """
    declared = prepared.target.recipe.build
    if isinstance(declared, CMake) and declared.install:
        raise UsageError(
            f"{prepared.target.recipe.name} can't be built by its frontend alone",
            why="its recipe runs a CMake install before it",
            fix="measure another package",
        )
    remove_tree(folder)
    with watched() as found:
        inputs = _inputs(prepared, folder)
        shutil.copytree(prepared.source.path, inputs.tree, symlinks=True)
        frontend = ("-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "built")
        done = run(
            [inputs.python.python, *frontend, inputs.tree],
            env=_without_launcher(prepared, inputs),
            cwd=inputs.tmp,
            log=folder / "build.log",
        )
    return Turn.of(found[0], build=done.duration)


def build_with_fromager(prepared: Prepared, folder: Path) -> Turn:
    """Build with fromager, each of its steps in a process of its own.

    Args:
        prepared: the target.
        folder: everything of the run goes there; it is emptied.

    Raises:
        CommandFailedError: a step failed; its log is in the folder.
        InstallError: fromager can't be installed.
    """
    fromager = _furnished(prepared, folder)
    with watched() as found:
        durations = [fromager.take("prepare-source").duration]
        fromager.lend_environment()
        durations += [fromager.take(step).duration for step in _AFTER_SOURCE]
    return replace(Turn.of(found[0], build=durations[-1]), whole=sum(durations))


def install_fromager(prepared: Prepared) -> Path:
    """The program, in a locked environment of the target's Python; the cache keeps it.

    Raises:
        InstallError: it can't be had.
    """
    workspace = prepared.workspace
    folder = workspace.cache / "bench" / f"fromager-{prepared.python.base_version}"
    mark = folder / "lock"
    if not mark.is_file() or mark.read_text() != FROMAGER_LOCK.read_text():
        remove_tree(folder)
        log = workspace.log("fromager")
        make_environment(folder, prepared.python.base_python, workspace, log=log)
        python = folder / "bin" / "python"
        install(python, FROMAGER_LOCK, workspace, offline=False, log=log)
        shutil.copyfile(FROMAGER_LOCK, mark)
    return folder / "bin" / "fromager"


@dataclass(frozen=True, kw_only=True)
class _Fromager:
    """One build of one package with fromager.

    It gets the patched source as an sdist, the locked packages as constraints, and a copy of the
    environment that holds them, which it takes for its own ("reusing build environment"): it would
    download gigabytes for each build. Its step `prepare-build` sees that nothing is missing there.
    """

    program: Path
    folder: Path
    prepared: Prepared
    inputs: BuildInputs

    def set_up(self) -> None:
        """Put in place what its steps take for downloaded."""
        recipe = self.prepared.target.recipe
        stem = f"{recipe.folder}-{recipe.version}"
        downloads = self.folder / "sdists" / "downloads"
        downloads.mkdir(parents=True)
        with tarfile.open(downloads / f"{stem}.tar.gz", "w:gz", compresslevel=1) as archive:
            archive.add(self.prepared.source.path, stem)
        pins = sorted(_installed(self.prepared.python.site_packages))
        (self.folder / "constraints.txt").write_text("".join(f"{pin}\n" for pin in pins))

    def lend_environment(self) -> None:
        """Put the environment where fromager looks for its own, which its first step empties."""
        recipe, python = self.prepared.target.recipe, self.prepared.python
        unpacked = self.folder / "work" / f"{recipe.folder}-{recipe.version}"
        # Hard links, as uv makes them: a file that is replaced here stays what it is there.
        place = unpacked / f"build-{python.base_version}"
        shutil.copytree(prefix_of(python), place, symlinks=True, copy_function=os.link)

    def take(self, step: str) -> Finished:
        """Run one of its steps."""
        recipe = self.prepared.target.recipe
        places = {
            "--sdists-repo": self.folder / "sdists",
            "--wheels-repo": self.folder / "wheels",
            "--work-dir": self.folder / "work",
            "--patches-dir": self.folder / "no-patches",
            "--settings-file": self.folder / "no-settings",
            "--settings-dir": self.folder / "no-settings.d",
            "--constraints-file": self.folder / "constraints.txt",
            "--jobs": self.prepared.machine.jobs,
        }
        general = [str(word) for option in places.items() for word in option]
        has_server = step in {"prepare-build", "build-wheel"}
        index = ["--wheel-server-url", configured_indexes(os.environ)[0]] if has_server else []
        return run(
            [self.program, "--debug", *general, "step", step, *index, recipe.name, recipe.version],
            env=self._environment(with_network=step == "prepare-build"),
            cwd=self.folder,
            log=self.folder / f"{step}.log",
        )

    def _environment(self, *, with_network: bool) -> dict[str, str]:
        stated = _without_launcher(self.prepared, self.inputs)
        # It puts its own environment's programs first.
        own = str(self.prepared.python.python.parent)
        stated["PATH"] = stated["PATH"].replace(own, str(self.program.parent))
        passed = {name: text for name, text in os.environ.items() if name.startswith(_NETWORK)}
        return {**passed, **stated} if with_network else stated


def _furnished(prepared: Prepared, folder: Path) -> _Fromager:
    program = install_fromager(prepared)
    remove_tree(folder)
    inputs = _inputs(prepared, folder)
    fromager = _Fromager(program=program, folder=folder, prepared=prepared, inputs=inputs)
    fromager.set_up()
    return fromager


def _inputs(prepared: Prepared, folder: Path) -> BuildInputs:
    """The folders of a build, with the real compilers in the launcher's place."""
    made = {name: folder / name for name in ("home", "tmp", "compilers", "unused")}
    for path in made.values():
        path.mkdir(parents=True)
    programs = made["compilers"] / "bin"
    programs.mkdir()
    cc, cxx = prepared.compilers
    for name, real in {"gcc": cc, "cc": cc, "g++": cxx, "c++": cxx}.items():
        (programs / name).symlink_to(real)
    return BuildInputs(
        tree=folder / "tree" / prepared.target.recipe.folder,
        epoch=prepared.source.epoch,
        toolchain=prepared.toolchain,
        python=prepared.python,
        machine=prepared.machine,
        home=made["home"],
        tmp=made["tmp"],
        toolbox=obtain_toolbox(prepared.workspace),
        resources=prepared.workspace.work / "resources",
        view=prepared.toolchain.home,
        launcher=made["compilers"],
        events=made["unused"],
        memory=made["unused"],
        target_python=folder / "target-python",
        target_libraries=folder / "target-libraries",
    )


def _without_launcher(prepared: Prepared, inputs: BuildInputs) -> dict[str, str]:
    """The build's variables but for those that speak to launcher and gate."""
    stated = variables(prepared.target, inputs)
    kept = {name: value for name, value in stated.items() if not name.startswith("CUWHEEL_")}
    return {"PATH": SYSTEM_PATH, **kept}


def _installed(site_packages: Path) -> list[str]:
    """Each package of an environment as a pin, `torch==2.11.0`."""
    names = [path.name.removesuffix(".dist-info") for path in site_packages.glob("*.dist-info")]
    return ["==".join(name.rsplit("-", 1)) for name in names]
