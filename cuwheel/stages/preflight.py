"""Stage preflight: find every reason why the build can't work before it costs anything."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from cuwheel import machine
from cuwheel.artefacts import Environment, Preflight, SourceTree, Toolchain
from cuwheel.compilers import SYSTEM_PATH, HostCompiler, find_host_compilers, newest_gcc_for
from cuwheel.errors import CommandFailedError, CuwheelError, PreflightError, SourceError
from cuwheel.locks import check_target_lock
from cuwheel.process import isolation, run, which
from cuwheel.pyproject import (
    BuildSystem,
    framework_cuda,
    read_build_system,
    unmet_requirements,
)
from cuwheel.pythons import Interpreter, find_python
from cuwheel.toolkits import check_archs

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_GIB = 1 << 30
_FIRST_FILL = 4 * _GIB  # bytes that a toolchain and what it is made from take in an empty cache


@dataclass(frozen=True, kw_only=True)
class _Problem:
    what: str
    why: str
    fix: str
    error: CuwheelError | None = None  # that says the same, with an exit code of its own


def preflight(target: Target, space: Workspace) -> Preflight:
    """Check the machine, and what the earlier stages left, against the target.

    It can run at any time: what isn't there yet isn't checked. So a build asks it twice, before
    the first download and before the first compile.

    Raises:
        PreflightError: with every problem found, each with its cause and fix.
        CuwheelError: the one problem, where an error of its own says it.
    """
    checks: list[Callable[[Target, Workspace], list[_Problem]]] = [
        _check_python,
        _check_archs,
        _check_host_compiler,
        _check_system_packages,
        _check_room,
        _check_folder_names,
        _check_dist,
        _check_lock,
        _check_given_source,
        _check_framework,
        _check_build_requirements,
    ]
    problems = [problem for check in checks for problem in check(target, space)]
    if len(problems) == 1 and problems[0].error:
        raise problems[0].error
    if problems:
        raise PreflightError(
            f"{target.id}: {len(problems)} thing{'s'[: len(problems) > 1]} to put right first",
            why="\n".join(f"{n}. {p.what}: {p.why}" for n, p in enumerate(problems, 1)),
            fix="\n".join(f"{n}. {p.fix}" for n, p in enumerate(problems, 1)),
        )
    compiler = _host_compiler(target, space)
    if not isolation():
        space.console.warn(_NO_ISOLATION)
    return Preflight(
        host_compiler=compiler.cxx,
        c_compiler=compiler.cc,
        host_compiler_version=compiler.banner,
        jobs=space.jobs or machine.jobs_for(target.recipe.memory_per_job),
    )


_NO_ISOLATION = (
    "this system doesn't let a program run without network (unshare), so the build could reach it; "
    "the provenance says so"
)


def _check_python(target: Target, space: Workspace) -> list[_Problem]:
    try:
        python = find_python(space.python, os.environ)
    except CuwheelError as error:
        return [_of_error(error)]
    problems = []
    if target.recipe.python == "each" and not (python.include / "Python.h").is_file():
        problems.append(
            _Problem(
                what=f"Python.h of {python.path} is missing",
                why=f"{python.include} doesn't hold it",
                fix=f"apt-get install python{python.release}-dev, or take another Python",
            )
        )
    return problems + _check_release(target, python)


def _check_release(target: Target, python: Interpreter) -> list[_Problem]:
    wanted = Requirement(f"x{target.recipe.requires_python}").specifier
    if wanted.contains(python.version):
        return []
    return [
        _Problem(
            what=f"Python {python.version} is not one that {target.recipe.name} is built for",
            why=f"the recipe says {target.recipe.requires_python}",
            fix="take another one with -- --python",
        )
    ]


def _check_archs(target: Target, space: Workspace) -> list[_Problem]:
    problems = []
    try:
        check_archs(target.id, target.toolkit, target.archs)
    except CuwheelError as error:
        problems.append(_of_error(error))
    if not problems and space.has("toolchain"):
        nvcc = space.load("toolchain", Toolchain).home / "bin" / "nvcc"
        said = run([nvcc, "--list-gpu-arch"], env={"PATH": os.defpath}, check=False).output
        unknown = [arch for arch in target.archs if f"compute_{arch}" not in said.split()]
        if unknown:
            problems.append(
                _Problem(
                    what=f"nvcc itself doesn't know {', '.join(unknown)}",
                    why=f"it lists {' '.join(said.split())}",
                    fix="take these out of `archs`, and correct cuwheel/toolkits.py",
                )
            )
    return problems


def _check_host_compiler(target: Target, space: Workspace) -> list[_Problem]:
    newest = _newest_gcc(target, space)
    found = find_host_compilers(os.environ, newest)
    if any(compiler.major <= newest for compiler in found):
        return []
    fix = f"apt-get install g++-{newest}, or set CXX to a g++ of version {newest} or older"
    if not found:
        named = os.environ.get("CXX")
        why = f"CXX={named} is no g++ that runs" if named else "there is no g++ in /usr/bin"
        fix = "unset CXX" if named else "apt-get install g++"
        fix += f", or set it to a g++ of version {newest} or older, without options"
        return [_Problem(what="no host compiler was found", why=why, fix=fix)]
    versions = ", ".join(f"{compiler.cxx} is {compiler.version}" for compiler in found)
    return [
        _Problem(
            what=f"nvcc of CUDA {target.toolkit.release} takes GCC {newest} at most",
            why=versions,
            fix=fix,
        )
    ]


def _host_compiler(target: Target, space: Workspace) -> HostCompiler:
    newest = _newest_gcc(target, space)
    found = find_host_compilers(os.environ, newest)
    return next(compiler for compiler in found if compiler.major <= newest)


def _newest_gcc(target: Target, space: Workspace) -> int:
    """What the toolkit's own header says, or the table while there is no toolkit yet."""
    if space.has("toolchain"):
        home = space.load("toolchain", Toolchain).home
        return newest_gcc_for(home) or target.toolkit.max_gcc
    return target.toolkit.max_gcc


def _check_system_packages(target: Target, space: Workspace) -> list[_Problem]:
    programs = {"strip": "binutils", "ld": "binutils"}
    missing = [package for name, package in programs.items() if not which(name, SYSTEM_PATH)]
    wanted = target.recipe.system
    query = which("dpkg-query", SYSTEM_PATH)
    if query:
        missing += [name for name in wanted if not _is_installed(query, name)]
    elif wanted:
        space.console.warn(f"can't tell whether these are installed: {', '.join(wanted)}")
    if not missing:
        return []
    names = " ".join(sorted(set(missing)))
    return [
        _Problem(
            what="system packages are missing",
            why=f"{target.recipe.name} needs {names}",
            fix=f"apt-get install {names}",
        )
    ]


def _is_installed(query: str, name: str) -> bool:
    try:
        said = run([query, "-W", "-f", "${Status}", name], env={"PATH": os.defpath}).output
    except CommandFailedError:
        return False
    return said.endswith(" installed")


def _check_room(target: Target, space: Workspace) -> list[_Problem]:
    rooms = [(space.work, target.recipe.disk)]
    if not (space.cache / "toolchains").is_dir():
        rooms.append((space.cache, _FIRST_FILL))
    problems = [
        _Problem(
            what=f"the disk of {folder} is too small",
            why=f"{machine.free_disk(folder) / _GIB:.1f} GiB are free, it takes "
            f"{wanted / _GIB:.1f}",
            fix="free some space, or name a folder on another disk: -- --work DIR for the work, "
            "CUWHEEL_CACHE for the cache",
        )
        for folder, wanted in rooms
        if machine.free_disk(folder) < wanted
    ]
    memory, wanted = machine.free_memory(), target.recipe.memory_per_job * (space.jobs or 1)
    if memory < wanted:
        problems.append(
            _Problem(
                what="there is too little memory",
                why=f"{memory / _GIB:.1f} GiB are free (cgroup limits counted), "
                f"{space.jobs or 1} compile{'s'[: (space.jobs or 1) > 1]} at once take "
                f"{wanted / _GIB:.1f}",
                fix="end other programs, raise the container's limit, or use fewer -- --jobs",
            )
        )
    return problems


def _check_folder_names(_: Target, space: Workspace) -> list[_Problem]:
    """Compiler flags travel through variables that are split at blanks, and nvcc's at commas."""
    odd = [path for path in (space.work, space.cache) if re.search(r"[\s,;:'\"]", str(path))]
    return [
        _Problem(
            what=f"the folder {path} can't be used",
            why="its name holds a blank, comma, colon or quote, which compiler flags can't carry",
            fix="move it with -- --work DIR or CUWHEEL_CACHE",
        )
        for path in odd
    ]


def _check_dist(_: Target, space: Workspace) -> list[_Problem]:
    """The finished wheel comes last: a folder that refuses it should be found first."""
    nearest = next(path for path in (space.dist, *space.dist.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return []
    return [
        _Problem(
            what=f"no wheel can be put into {space.dist}",
            why=f"{nearest} {'may not be written' if nearest.is_dir() else 'is no folder'}",
            fix="name another folder with -- --dist DIR",
        )
    ]


def _check_lock(target: Target, _: Workspace) -> list[_Problem]:
    try:
        check_target_lock(target)
    except CuwheelError as error:
        return [_of_error(error)]
    return []


def _check_given_source(target: Target, _: Workspace) -> list[_Problem]:
    given = target.source_override
    if given is None or given.is_dir() or given.is_file():
        return []
    error = SourceError(
        f"{given} is neither a folder nor a file",
        why="--source names it, as seen from the folder in which nox was started",
        fix="name a folder with pyproject.toml or setup.py, or an archive of one",
    )
    return [_of_error(error)]


def _check_framework(target: Target, space: Workspace) -> list[_Problem]:
    if target.framework is None or not space.has("environment"):
        return []
    name, site = target.framework.name, space.load("environment", Environment).site_packages
    cuda = framework_cuda(site / name / "version.py")
    if cuda == target.toolkit.release:
        return []
    return [
        _Problem(
            what=f"{name} {target.framework.version} was not built for CUDA "
            f"{target.toolkit.release}",
            why=f"its version.py says CUDA {cuda or 'none'}; mixing two CUDA releases in one "
            "process ends in undefined symbols",
            fix=f"take the {name} that was built for CUDA {target.toolkit.release} "
            "(-- --framework), or another toolkit",
        )
    ]


def _check_build_requirements(target: Target, space: Workspace) -> list[_Problem]:
    stage = next((name for name in ("patch", "source") if space.has(name)), None)
    if stage is None or not space.has("environment"):
        return []
    env = space.load("environment", Environment)
    system = read_build_system(space.load(stage, SourceTree).path)
    lacking = unmet_requirements([*system.requires, "build"], env.site_packages)
    if not lacking:
        return _check_backend_imports(env, system)
    return [
        _Problem(
            what="build requirements are missing from the lock",
            why=f"pyproject.toml asks for {', '.join(lacking)}",
            fix=f"add them to envs/build/{target.recipe.folder}.in, then "
            f"`nox -s lock -- build:{target.recipe.name}`",
        )
    ]


def _check_backend_imports(env: Environment, system: BuildSystem) -> list[_Problem]:
    paths = f"sys.path[:0] = {list(system.backend_path)!r}"
    code = f"import sys; {paths}; import build, {system.module}"
    answer = run([env.python, "-I", "-c", code], env={}, cwd=system.tree, check=False)
    if answer.status == 0:
        return []
    return [
        _Problem(
            what=f"the build backend {system.module} can't be imported",
            why=(answer.output.strip().splitlines() or ["python ends at once"])[-1],
            fix=f"remove {env.python.parent.parent} and run the same command again; if that "
            "doesn't help, the lock misses something",
        )
    ]


def _of_error(error: CuwheelError) -> _Problem:
    return _Problem(what=error.what, why=error.why, fix=error.fix, error=error)
