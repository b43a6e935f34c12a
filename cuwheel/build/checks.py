"""Whether this machine can build a target: what it lacks, each with its cause and the way out."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from cuwheel.conda.lock_file import read_conda_lock
from cuwheel.cross.root_libraries import package_version
from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.errors import CuwheelError
from cuwheel.locks.jobs import toolchain_lock
from cuwheel.standalone.memory_gate.peaks import known_peaks
from cuwheel.system import machine
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.process import which
from cuwheel.system.quantities import plural, show_size
from cuwheel.toolchains.debian_packages import installed_version
from cuwheel.workspace.problems import Problem, problem_of

if TYPE_CHECKING:
    from cuwheel.model.target import Target
    from cuwheel.system.pythons import Interpreter
    from cuwheel.workspace.job import Job


# Bytes of what is made of wheels, whose locks hold no sizes; measured on the installer's unpacked
# packages, to which toolchains and environments are hard links.
_PYPI_TOOLCHAIN = 2075 << 20  # cuda-toolkit 13.0.2, whole
_ENVIRONMENT = 670 << 20  # the largest without a framework, tests/project's tiny-rdc
_NAMED = 4  # so many compiles are named in one sentence
_FRAMEWORKS = {"torch": 4863 << 20}  # an environment with 2.15 and NVIDIA's libraries


def check_platform(job: Job) -> list[Problem]:
    """The wheel's platform is this machine's, or one that it can be compiled for here."""
    return platform_problems(job.target)


def platform_problems(target: Target) -> list[Problem]:
    """Why a target can't be built here for its platform, whatever the machine has."""
    if not (why := target.platform_fault):
        return []
    fix = f"build it on a machine with {target.platform.machine}"
    if target.provider != "pypi":
        fix = f"use toolkit 13.0 or newer without `--toolchain`, or {fix}"
    what = f"{target.name} can't be built for {target.platform.name} here"
    return [Problem(what=what, why=why, fix=fix)]


def check_python(job: Job) -> list[Problem]:
    """The Python that was asked for can be compiled against, and is in range."""
    target, python = job.target, job.machine.python
    if python is None:
        return []  # `Machine.faults` says why
    problems = []
    if target.recipe.python != "any" and not (python.include / "Python.h").is_file():
        problems.append(
            Problem(
                what=f"Python.h of {python.path} is missing",
                why=f"{python.include} doesn't contain it",
                fix=f"apt-get install python{python.release}-dev, or use another Python",
            )
        )
    if target.recipe.python != "any" and target.provider == "conda" and python.is_of_system:
        problems.append(
            Problem(
                what=f"{python.path} doesn't work with a conda toolchain",
                why=f"its headers in {python.include} are for the system's C library, and the "
                "toolchain has its own",
                fix=f"-- --python {python.release} uses the Python of the conda lock; or give one "
                "from pyenv, uv, or of your own",
            )
        )
    return problems + _check_release(target, python)


def _check_release(target: Target, python: Interpreter) -> list[Problem]:
    required = Requirement(f"x{target.recipe.requires_python}").specifier
    if required.contains(python.version):
        return []
    return [
        Problem(
            what=f"Python {python.version} is not supported by the recipe of {target.recipe.name}",
            why=f"its `requires_python` is {target.recipe.requires_python}",
            fix="choose another one with -- --python",
        )
    ]


def check_driver(job: Job) -> list[Problem]:
    """The GPU driver, where there is one, runs what is built; a machine without can build all."""
    target, found = job.target, job.machine.driver
    least = target.toolkit.min_driver
    if found is None or job.settings.any_driver or Version(found) >= Version(least):
        return []
    if target.platform.is_foreign:  # it runs elsewhere
        return []
    return [
        Problem(
            what=f"a wheel for CUDA {target.toolkit.release} doesn't run on this machine",
            why=f"its driver is {found}, and the wheel needs {least} or newer",
            fix=f"{_fitting_toolkit(target, found)}update the driver, or build for other machines "
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


def check_system_packages(job: Job) -> list[Problem]:
    """What the build needs beside the compiler is there: on the machine, or in a conda toolchain.

    A conda toolchain has programs and libraries of its own; the build sees none of the machine's.
    """
    target = job.target
    if target.provider == "conda":
        return _check_conda_packages(target)
    missing = ["binutils" for name in ("strip", "ld") if not which(name, SYSTEM_PATH)]
    required = target.system_packages
    if target.platform.is_foreign:
        return [*_lacking(target, missing), *_check_root_packages(job)]
    if which("dpkg-query", SYSTEM_PATH):
        missing += [name for name in required if not installed_version(name)]
    elif required:
        job.workspace.console.warn(f"can't tell whether these are installed: {', '.join(required)}")
    return _lacking(target, missing)


def _lacking(target: Target, missing: list[str]) -> list[Problem]:
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


def _check_root_packages(job: Job) -> list[Problem]:
    """What is there of another kind of machine stands in its root folder."""
    root, packages = job.machine.target_root, job.target.system_packages
    if root is None:
        return []  # `Machine.faults` says why
    missing = [name for name in packages if not package_version(root.folder, name)]
    if not missing:
        return []
    return [
        Problem(
            what=f"{root.folder} lacks Debian packages",
            why=f"{job.target.recipe.name} needs {' '.join(missing)} for "
            f"{job.target.platform.machine}",
            fix=f"make the root folder with debootstrap's --include=…,{','.join(missing)} "
            "(docs/how-to/arm64.md)",
        )
    ]


def _check_conda_packages(target: Target) -> list[Problem]:
    """The lock is asked, as the toolchain may be still to come; without one that stage says so."""
    lock, required = toolchain_lock(target), target.recipe.needs.get("conda", ())
    if lock is None or not required:
        return []  # reading a lock takes seconds
    try:
        locked = {package.name for package in read_conda_lock(lock).packages}
    except CuwheelError as error:
        return [problem_of(error)]
    missing = [name for name in required if name not in locked]
    if not missing:
        return []
    return [
        Problem(
            what=f"the conda toolchain for CUDA {target.toolkit.release} lacks packages",
            why=f"{target.recipe.name} needs {' '.join(missing)}; {lock} doesn't have it",
            fix=f"add {' '.join(missing)} to {lock.with_name('environment.yml')}, then "
            f"`nox -s lock -- toolchain:{target.toolkit.tag}:conda`",
        )
    ]


def check_disk(job: Job) -> list[Problem]:
    """Disks and memory hold what the build takes."""
    target, workspace = job.target, job.workspace
    sizes = (_size_of_toolchain, _size_of_environment, _size_of_foreign)
    cached = sum(size(target, workspace.cache) for size in sizes)
    rooms = {workspace.work: target.recipe.disk, workspace.cache: cached}
    if _disk_of(workspace.work) == _disk_of(workspace.cache):
        rooms = {workspace.cache: target.recipe.disk + cached}
    problems = [
        Problem(
            what=f"the disk of {folder} is too small",
            why=f"{show_size(machine.free_disk(folder))} are free, {show_size(needed)} needed",
            fix="free some space, or use a folder on another disk: -- --work DIR for the work "
            "folder, CUWHEEL_CACHE for the cache",
        )
        for folder, needed in rooms.items()
        if machine.free_disk(folder) < needed
    ]
    _warn_of_memory(job)
    return problems


def _warn_of_memory(job: Job) -> None:
    """What is free now doesn't count: the memory gate waits for more.

    What compiles were measured to take counts, where that is known; else what the recipe says.
    """
    target, most = job.target, job.machine.memory
    if most is None:
        return
    peaks = known_peaks(str(job.workspace.cache / "memory"), target.recipe.name)
    known = [one for one in peaks if one[2] in {"", *target.archs}]
    if too_large := [one for one in known if one[0] > most]:
        job.workspace.console.warn(_say_too_large(too_large, most))
    if not known and most < target.recipe.memory_per_job:
        job.workspace.console.warn(
            f"a large compile of {target.recipe.name} may need "
            f"{show_size(target.recipe.memory_per_job)} of memory, and {show_size(most)} are "
            "available (container limits included): it will run alone, and be killed if that is "
            "not enough"
        )


def _say_too_large(peaks: list[tuple[int, str, str]], most: int) -> str:
    """Compiles that took more memory than there is, the largest first."""
    named = ", ".join(
        f"{Path(file).name}{f' for sm_{arch}' if arch else ''} ({show_size(peak)})"
        for peak, file, arch in peaks[:_NAMED]
    )
    more = f" and {len(peaks) - _NAMED} more" if len(peaks) > _NAMED else ""
    return (
        f"{plural(len(peaks), 'compile')} used more memory in an earlier build than the "
        f"{show_size(most)} available now (container limits included): {named}{more}. Those that "
        f"aren't in the compile cache will be killed; {show_size(peaks[0][0] + peaks[0][0] // 8)} "
        "would be enough"
    )


def _size_of_toolchain(target: Target, cache: Path) -> int:
    """Bytes that making the toolchain adds to the cache; 0 where it has one."""
    if _has_folder(cache / "toolchains", f"cuda{target.toolkit.tag}-{target.provider}-*"):
        return 0
    if target.provider == "pypi":
        return _PYPI_TOOLCHAIN
    lock = toolchain_lock(target)
    if target.provider == "system" or lock is None:
        return 0
    # What installs conda packages is large, and no other provider needs it.
    from cuwheel.conda.install import needed_disk  # noqa: PLC0415

    try:
        return needed_disk(read_conda_lock(lock).packages, cache)
    except CuwheelError:
        return 0  # the stage that installs from the lock says what is wrong with it


def _size_of_environment(target: Target, cache: Path) -> int:
    """Bytes that the build environment adds to the cache; 0 where it has one like it."""
    framework = target.framework.name if target.framework else ""
    names = f"*-{framework}*" if framework else f"{target.recipe.name}-*"
    if _has_folder(cache / "environments", names):
        return 0
    return _FRAMEWORKS.get(framework, _ENVIRONMENT)


def _size_of_foreign(target: Target, cache: Path) -> int:
    """Bytes of what is kept for another kind of machine beside this one's."""
    if not target.platform.is_foreign:
        return 0
    machine_name, framework = target.platform.machine, target.framework
    toolchain = f"cuda{target.toolkit.tag}-{target.provider}-{machine_name}-*"
    packages = f"{target.lock.stem}-{machine_name}-*"
    size = 0 if _has_folder(cache / "toolchains", toolchain) else _PYPI_TOOLCHAIN
    if _has_folder(cache / "environments", packages):
        return size
    return size + _FRAMEWORKS.get(framework.name if framework else "", _ENVIRONMENT)


def _has_folder(folder: Path, pattern: str) -> bool:
    return any(path.is_dir() for path in folder.glob(pattern))


def _disk_of(folder: Path) -> int:
    """What identifies the disk of a folder, which needn't be there yet."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return nearest.stat().st_dev


def check_folder_names(job: Job) -> list[Problem]:
    """Compiler flags travel through variables that are split at blanks, and nvcc's at commas."""
    folders = (job.workspace.work, job.workspace.cache)
    odd = [path for path in folders if re.search(r"[\s,;:'\"]", str(path))]
    return [
        Problem(
            what=f"the folder {path} can't be used",
            why="its name contains a space, comma, colon or quote, which compiler flags can't "
            "contain",
            fix="move it with -- --work DIR or CUWHEEL_CACHE",
        )
        for path in odd
    ]


def check_dist(job: Job) -> list[Problem]:
    """The finished wheel comes last: a folder that refuses it should be found first."""
    dist = job.workspace.dist
    nearest = next(path for path in (dist, *dist.parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return []
    return [
        Problem(
            what=f"wheels can't be written to {dist}",
            why=f"{nearest} {'is not writable' if nearest.is_dir() else 'is not a folder'}",
            fix="use another folder: -- --dist DIR",
        )
    ]
