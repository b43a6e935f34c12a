"""Checks of this machine: each problem that keeps it from building a target, with its fix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

from cuwheel.base.errors import CuwheelError, PreflightError
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.process import which
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.build.compile.memory.peaks import known_peaks
from cuwheel.build.locks.lock_jobs import toolchain_lock
from cuwheel.build.recipe.platform import own_platform
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.conda.lock_file import read_conda_lock
from cuwheel.build.toolchains.cross.root_libraries import package_version
from cuwheel.build.toolchains.cuda_home import provider_lock
from cuwheel.build.toolchains.debian.lock_file import read_debian_lock
from cuwheel.build.toolchains.from_system import choose_toolkit
from cuwheel.build.toolchains.host_compiler import compiler_lock
from cuwheel.build.toolchains.system_programs import installed_version
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkit_search import find_toolkits
from cuwheel.check.cuda.toolkits import TOOLKITS


def check_platform(target: Target) -> Iterator[CuwheelError]:
    """Check that the wheel's platform is this machine's, or can be compiled for here."""
    if why := target.platform_fault:
        fix = f"build it on a machine with {target.platform.machine}"
        if target.provider != "pypi":
            other = "use toolkit 13.0 or newer without `--toolchain`, or `--toolchain redist`"
            fix = f"{other}, or {fix}"
        what = f"{target.name} can't be built for {target.platform.name} here"
        yield PreflightError(what, why=why, fix=fix)


def check_python(job: Job) -> Iterator[CuwheelError]:
    """Check that the requested Python can be compiled against."""
    target, python = job.target, job.machine.python
    if python is None or target.recipe.python == "any":
        return  # where there is none, `Machine.faults` has the reason
    if not (python.include / "Python.h").is_file():
        yield PreflightError(
            f"Python.h of {python.path} is missing",
            why=f"{python.include} doesn't contain it",
            fix=f"apt-get install python{python.release}-dev, or use another Python",
        )
    if target.provider == "conda" and python.is_of_system:
        yield PreflightError(
            f"{python.path} doesn't work with a conda toolchain",
            why=f"its headers in {python.include} are for the system's C library, and the "
            "toolchain has its own",
            fix=f"-- --python {python.release} uses the Python of the conda lock; or give one "
            "from pyenv, uv, or of your own",
        )


def check_system_toolkit(job: Job) -> None:
    """Raise ToolchainError where the machine lacks the toolkit that `--toolchain system` takes."""
    if job.target.provider == "system":
        environ, release = job.workspace.environ, job.target.toolkit.release
        choose_toolkit(find_toolkits(environ), release, environ)


def check_driver(job: Job) -> None:
    """Check that the GPU driver runs the wheel; a machine without a driver can build all."""
    target, driver = job.target, job.machine.driver
    least = target.toolkit.min_driver
    runs_elsewhere = job.settings.any_driver or target.platform.is_foreign
    if driver and not runs_elsewhere and Version(driver) < Version(least):
        raise PreflightError(
            f"a wheel for CUDA {target.toolkit.release} doesn't run on this machine",
            why=f"its driver is {driver}, and the wheel needs {least} or newer",
            fix=f"{_fitting_toolkit(target, driver)}update the driver, or build for other machines "
            "with -- --any-driver",
        )


def _fitting_toolkit(target: Target, driver: str) -> str:
    """Advise the newest CUDA that the driver runs, one of the recipe's if possible."""
    recipe = target.recipe
    fitting = [toolkit for toolkit in TOOLKITS if Version(driver) >= Version(toolkit.min_driver)]
    declared = [toolkit for toolkit in fitting if toolkit.release in recipe.toolkits]
    if declared:
        session = f"build-{recipe.name}-{declared[-1].tag}"
        return f"build for CUDA {declared[-1].release} (`nox -s {session}`), "
    if fitting:
        return f'add "{fitting[-1].release}" to the recipe\'s `toolkits` and build for it, '
    return ""


def check_toolchain_lock(job: Job) -> None:
    """Check that the requested provider has the release, before anything is downloaded.

    Raises:
        LockError: it has no lock for it.
    """
    if job.target.provider in {"debian", "redist"}:
        provider_lock(job.target.toolkit, job.target.provider, job.workspace)


def check_system_packages(job: Job) -> Iterator[CuwheelError]:
    """Check the packages that the build needs in addition to the compiler.

    They come from the machine, from another machine's root folder, or from the lock of the
    toolchain's own compiler: a build with one sees nothing of the machine.
    """
    target, required = job.target, job.target.system_packages
    if target.provider == "conda":
        yield from _check_conda_packages(target, job.workspace)
        return
    if target.is_compiler_pinned:
        yield from _check_debian_packages(target, job.workspace)
        return
    missing = {"binutils" for name in ("strip", "ld") if not which(name, SYSTEM_PATH)}
    if not target.platform.is_foreign:
        if which("dpkg-query", SYSTEM_PATH):
            missing |= {name for name in required if not installed_version(name)}
        elif required:
            job.workspace.console.warn(
                f"can't tell whether these are installed: {', '.join(required)}"
            )
    if missing:
        names = " ".join(sorted(missing))
        yield PreflightError(
            "system packages are missing",
            why=f"{target.recipe.name} needs {names}",
            fix=f"apt-get install {names}",
        )
    yield from _check_root_packages(job)


def _check_root_packages(job: Job) -> Iterator[CuwheelError]:
    root, packages = job.machine.target_root, job.target.system_packages
    missing = [name for name in packages if root and not package_version(root.folder, name)]
    if root and missing:
        yield PreflightError(
            f"{root.folder} lacks Debian packages",
            why=f"{job.target.recipe.name} needs {' '.join(missing)} for "
            f"{job.target.platform.machine}",
            fix=f"make the root folder with debootstrap's --include=…,{','.join(missing)} "
            "(docs/how-to/arm64.md)",
        )


def _check_conda_packages(target: Target, workspace: Workspace) -> Iterator[CuwheelError]:
    """Check the lock, as the toolchain may not be there yet; its stage raises where none is."""
    lock, required = toolchain_lock(target, workspace), target.recipe.needs.get("conda", ())
    if lock is None or not required:
        return  # reading a lock takes seconds
    locked = {package.name for package in read_conda_lock(lock).packages}
    if missing := " ".join(name for name in required if name not in locked):
        yield PreflightError(
            f"the conda toolchain for CUDA {target.toolkit.release} lacks packages",
            why=f"{target.recipe.name} needs {missing}; {lock} doesn't have it",
            fix=f"add {missing} to {lock.with_name('environment.yml')}, then "
            f"`nox -s lock -- toolchain:{target.toolkit.tag}:conda`",
        )


def _check_debian_packages(target: Target, workspace: Workspace) -> Iterator[CuwheelError]:
    required = target.recipe.needs.get("debian", ())
    if not required:
        return
    lock = compiler_lock(target.host_compiler, workspace)
    locked = {
        package.name for package in read_debian_lock(lock).packages_for(own_platform().machine)
    }
    if missing := " ".join(name for name in required if name not in locked):
        yield PreflightError(
            f"the host compiler {target.host_compiler} lacks packages",
            why=f"{target.recipe.name} needs {missing}; {lock} doesn't have it",
            fix=f"add {missing} to {lock.with_name('debian.yml')}, then "
            f"`nox -s lock -- host-compiler:{target.host_compiler}`; or build with "
            "-- --host-compiler system",
        )


def check_folder_names(job: Job) -> Iterator[CuwheelError]:
    """Check for characters that split compiler flags: blanks in variables, commas for nvcc."""
    for path in (job.workspace.work, job.workspace.cache):
        if re.search(r"[\s,;:'\"$%\\]", str(path)):
            yield PreflightError(
                f"the folder {path} can't be used",
                why="its name contains a space or one of , ; : ' \" $ % \\, which compiler flags "
                "can't contain",
                fix="move it with -- --work DIR or CUWHEEL_CACHE",
            )


def warn_of_memory(job: Job) -> None:
    """Warn of compiles that take more memory than there is, as measured, else by the recipe.

    All memory of the machine counts, not what is free now: the memory gate waits for more.
    """
    recipe, most = job.target.recipe, job.machine.memory
    if most is None:
        return
    available = f"{show_size(most)} are available (container limits included)"
    peaks = known_peaks(job.workspace.cache / "memory", recipe.name)
    known = [peak for peak in peaks if peak[2] in {"", *job.target.archs}]
    too_large = [peak for peak in known if peak[0] > most]
    if too_large:
        size, file, arch = too_large[0]
        more = f" and {plural(len(too_large) - 1, 'other compile')}" if len(too_large) > 1 else ""
        job.workspace.console.warn(
            f"in an earlier build {Path(file).name}{f' for sm_{arch}' if arch else ''}{more} used "
            f"up to {show_size(size)} of memory, and {available}: what isn't in the compile cache "
            "will be killed"
        )
    elif not known and most < recipe.memory_per_job:
        job.workspace.console.warn(
            f"a large compile of {recipe.name} may need {show_size(recipe.memory_per_job)} of "
            f"memory, and {available}: it will run alone, and be killed if that is not enough"
        )
