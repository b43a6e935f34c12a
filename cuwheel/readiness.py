"""Whether this machine can build a target: what it lacks, each with its cause and the way out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from cuwheel import machine
from cuwheel.artefacts import Toolchain
from cuwheel.compilers import SYSTEM_PATH
from cuwheel.errors import CommandFailedError, CuwheelError
from cuwheel.process import run, which
from cuwheel.pythons import find_python
from cuwheel.toolkits import TOOLKITS

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.pythons import Interpreter
    from cuwheel.target import Target
    from cuwheel.workspace import Workspace

_GIB = 1 << 30

# Bytes that a toolchain and what it is made from take where the cache has none yet. pypi: the
# wheels of cuda-toolkit 13.0.2, unpacked; the toolchain is hard links to them. conda: 1.7 GiB of
# packages for the largest lock (12.8 with cuDNN, by the sizes that conda-forge states) and about
# twice that unpacked, which the toolchain's hard links share. system: nothing.
_FIRST_FILL = {"pypi": 4 * _GIB, "conda": 6 * _GIB, "system": 0}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One reason why a build can't work.

    Attributes:
        what: the fact.
        why: its cause.
        fix: what the reader can do.
        error: an error that says the same, with an exit code of its own.
    """

    what: str
    why: str
    fix: str
    error: CuwheelError | None = None


def problem_of(error: CuwheelError) -> Problem:
    """An error as one problem among others."""
    return Problem(what=error.what, why=error.why, fix=error.fix, error=error)


def check_python(target: Target, space: Workspace) -> list[Problem]:
    """The Python that was asked for is there, can be compiled against, and is in range."""
    try:
        python = find_python(space.python, os.environ)
    except CuwheelError as error:
        return [problem_of(error)]
    problems = []
    if target.recipe.python == "each" and not (python.include / "Python.h").is_file():
        problems.append(
            Problem(
                what=f"Python.h of {python.path} is missing",
                why=f"{python.include} doesn't hold it",
                fix=f"apt-get install python{python.release}-dev, or take another Python",
            )
        )
    if target.recipe.python == "each" and target.provider == "conda" and python.is_of_system:
        problems.append(
            Problem(
                what=f"{python.path} can't be compiled against with a conda toolchain",
                why=f"its headers in {python.include} need the system's C library, the toolchain "
                "has another one",
                fix=f"-- --python {python.release} takes the one of the conda lock; or name a "
                "Python of pyenv, uv, or of your own",
            )
        )
    return problems + _check_release(target, python)


def _check_release(target: Target, python: Interpreter) -> list[Problem]:
    wanted = Requirement(f"x{target.recipe.requires_python}").specifier
    if wanted.contains(python.version):
        return []
    return [
        Problem(
            what=f"Python {python.version} is not one that {target.recipe.name} is built for",
            why=f"the recipe says {target.recipe.requires_python}",
            fix="take another one with -- --python",
        )
    ]


def check_driver(target: Target, space: Workspace) -> list[Problem]:
    """The GPU driver, where there is one, runs what is built; a machine without can build all."""
    found, least = machine.driver_version(), target.toolkit.min_driver
    if found is None or space.any_driver or Version(found) >= Version(least):
        return []
    return [
        Problem(
            what=f"a wheel for CUDA {target.toolkit.release} doesn't run on this machine",
            why=f"its driver is {found}, it takes {least} at least",
            fix=f"{_fitting_toolkit(target, found)}update the driver, or build for another machine "
            "with -- --any-driver",
        )
    ]


def _fitting_toolkit(target: Target, driver: str) -> str:
    """The newest CUDA that the driver runs, of those in the recipe where one of them does."""
    recipe = target.recipe
    fitting = [one for one in TOOLKITS if Version(driver) >= Version(one.min_driver)]
    declared = [one for one in fitting if one.release in recipe.toolkits]
    if declared:
        session = f"build-{recipe.name}-{declared[-1].tag}"
        return f"build for CUDA {declared[-1].release} (`nox -s {session}`), "
    if fitting:
        return f'add "{fitting[-1].release}" to the recipe\'s `toolkits` and build for it, '
    return ""


def check_system_packages(target: Target, space: Workspace) -> list[Problem]:
    """What the build needs from the machine beside the compiler is installed."""
    missing = _missing_binutils(target, space)
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
        Problem(
            what="system packages are missing",
            why=f"{target.recipe.name} needs {names}",
            fix=f"apt-get install {names}",
        )
    ]


def _missing_binutils(target: Target, space: Workspace) -> list[str]:
    """A toolchain with programs of its own has its own binutils, a conda toolchain to come too."""
    if space.has("toolchain"):
        has_own = space.load("toolchain", Toolchain).programs is not None
    else:
        has_own = target.provider == "conda"
    programs = () if has_own else ("strip", "ld")
    return ["binutils" for name in programs if not which(name, SYSTEM_PATH)]


def _is_installed(query: str, name: str) -> bool:
    try:
        said = run([query, "-W", "-f", "${Status}", name], env={"PATH": os.defpath}).output
    except CommandFailedError:
        return False
    return said.endswith(" installed")


def check_room(target: Target, space: Workspace) -> list[Problem]:
    """Disks and memory hold what the build takes."""
    rooms = [(space.work, target.recipe.disk)]
    if not _has_toolchain(target, space.cache):
        rooms.append((space.cache, _FIRST_FILL[target.provider]))
    problems = [
        Problem(
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
            Problem(
                what="there is too little memory",
                why=f"{memory / _GIB:.1f} GiB are free (cgroup limits counted), "
                f"{space.jobs or 1} compile{'s'[: (space.jobs or 1) > 1]} at once take "
                f"{wanted / _GIB:.1f}",
                fix="end other programs, raise the container's limit, or use fewer -- --jobs",
            )
        )
    return problems


def _has_toolchain(target: Target, cache: Path) -> bool:
    made = (cache / "toolchains").glob(f"cuda{target.toolkit.tag}-{target.provider}-*")
    return any(path.is_dir() for path in made)


def check_folder_names(_: Target, space: Workspace) -> list[Problem]:
    """Compiler flags travel through variables that are split at blanks, and nvcc's at commas."""
    odd = [path for path in (space.work, space.cache) if re.search(r"[\s,;:'\"]", str(path))]
    return [
        Problem(
            what=f"the folder {path} can't be used",
            why="its name holds a blank, comma, colon or quote, which compiler flags can't carry",
            fix="move it with -- --work DIR or CUWHEEL_CACHE",
        )
        for path in odd
    ]


def check_dist(_: Target, space: Workspace) -> list[Problem]:
    """The finished wheel comes last: a folder that refuses it should be found first."""
    nearest = next(path for path in (space.dist, *space.dist.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return []
    return [
        Problem(
            what=f"no wheel can be put into {space.dist}",
            why=f"{nearest} {'may not be written' if nearest.is_dir() else 'is no folder'}",
            fix="name another folder with -- --dist DIR",
        )
    ]
