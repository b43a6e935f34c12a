"""The space that a build needs on each disk: stated before it starts, and checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement
from packaging.utils import canonicalize_name

from cuwheel.base.errors import CuwheelError, FileAccessError, PreflightError
from cuwheel.base.fetch.private_files import shares_blocks
from cuwheel.base.system import machine
from cuwheel.base.system.folders.output_folder import check_writable
from cuwheel.base.system.pythons import Interpreter
from cuwheel.base.system.quantities import show_size
from cuwheel.build.environments.build_environment import EnvironmentPlace, shared_environments
from cuwheel.build.environments.lock_file import read_pins
from cuwheel.build.locks.lock_jobs import toolchain_lock
from cuwheel.build.pipeline.environment_place import environment_of
from cuwheel.build.recipe.platform import own_platform
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.conda.lock_file import read_conda_lock
from cuwheel.build.toolchains.cross.packages import foreign_folder
from cuwheel.build.toolchains.from_pypi import pypi_folder
from cuwheel.build.toolchains.redist.install import disk_for_archives
from cuwheel.build.toolchains.redist.lock_file import read_redist_lock
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.workspace import Workspace

# Bytes of what is made of wheels, as their locks hold no sizes: measured. The installer keeps its
# own unpacked packages, and toolchains and environments are copies of them.
_PYPI_TOOLCHAIN = 2075 << 20  # cuda-toolkit 13.0.2, whole
_DEBIAN_TOOLCHAIN = 3300 << 20  # 12.4, with its downloads
_COMPILER = 350 << 20  # gcc10, with its downloads
_ENVIRONMENT = 670 << 20  # the largest without a framework, tests/project's tiny-rdc
_FRAMEWORKS = {"torch": 4863 << 20}  # an environment with 2.15 and NVIDIA's libraries
_SMOKE = 1500 << 20  # of cutensornet-sample, whose environment is linked to the installer's files
_OF_ONE_PYTHON = 1600 << 20  # of these, torch itself and others that NVIDIA doesn't make
_OF_ONE_LOCK = 720 << 20  # of these, what mamba-ssm has and causal-conv1d lacks
_WORK = "the work folder"


@dataclass(frozen=True, kw_only=True)
class DiskNeed:
    """The space that a build needs in a folder, and what for.

    Attributes:
        parts: bytes by name.
    """

    folder: Path
    parts: Mapping[str, int]

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return sum(self.parts.values())


def check_disk(job: Job) -> Iterator[CuwheelError]:
    """Check that the disks hold what the build takes."""
    for need in disk_needs(job):
        if (free := machine.free_disk(need.folder)) >= need.size:
            continue
        try:
            if _is_never_written(need.folder):
                check_writable(need.folder)
        except FileAccessError as problem:
            yield problem
            continue
        yield PreflightError(
            f"the disk of {need.folder} is too small",
            why=f"{show_size(free)} are free, {show_size(need.size)} needed: {_listed(need.parts)}",
            fix="free some space, or use a folder on another disk: -- --work DIR for the work "
            "folder, CUWHEEL_CACHE for the cache",
        )


def _is_never_written(folder: Path) -> bool:
    """Return True for a read-only file system, and one without blocks, as `/proc`."""
    status = os.statvfs(machine.nearest_folder(folder))
    return not status.f_blocks or bool(status.f_flag & os.ST_RDONLY)


def note_disk_needs(job: Job) -> None:
    """State what the build adds to the cache, where it adds anything, and what is free."""
    for need in disk_needs(job):
        if need.parts.keys() - {_WORK}:
            job.workspace.console.note(
                f"needs {show_size(need.size)} on the disk of {need.folder}, where "
                f"{show_size(machine.free_disk(need.folder))} are free: {_listed(need.parts)}"
            )


def disk_needs(job: Job) -> tuple[DiskNeed, ...]:
    """Return the space that a build needs on each disk."""
    workspace = job.workspace
    work = {_WORK: job.target.recipe.disk}
    cached = {name: size for name, size in _parts_of_cache(job) if size}
    folders = {
        machine.nearest_folder(path).stat().st_dev for path in (workspace.work, workspace.cache)
    }
    if len(folders) == 1:
        return (DiskNeed(folder=workspace.cache, parts=work | cached),)
    return (
        DiskNeed(folder=workspace.work, parts=work),
        DiskNeed(folder=workspace.cache, parts=cached),
    )


def _listed(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{show_size(size)} for {name}" for name, size in parts.items())


def _parts_of_cache(job: Job) -> Iterator[tuple[str, int]]:
    """Yield what toolchains and environments add to the cache, where it has none."""
    target, workspace = job.target, job.workspace
    copies = 0 if shares_blocks(machine.nearest_folder(workspace.cache)) else 1
    yield f"the CUDA {target.toolkit.release} toolchain", _size_of_toolchain(job, copies)
    if target.is_compiler_pinned:
        yield f"the compiler {target.host_compiler}", _size_of_compiler(target, workspace)
    if job.machine.python is None:
        return
    try:
        yield from _parts_of_packages(job, job.machine.python, copies)
    except (OSError, InvalidRequirement):
        return  # the check of the lock raises


def _parts_of_packages(job: Job, python: Interpreter, copies: int) -> Iterator[tuple[str, int]]:
    target, workspace = job.target, job.workspace
    name = target.framework.name if target.framework else ""
    what = f"{name} and its libraries" if name else "Python packages"
    place, size = environment_of(job, python), _installed_size(target)
    yield what, _size_of_environment(job, place) * copies
    if not (place.folder.is_dir() or _are_unpacked(target.lock, workspace, name)):
        yield "the installer's copy of them", size
    if target.smoke_lock != target.lock and not _are_unpacked(target.smoke_lock, workspace):
        yield "the smoke test's packages", _SMOKE
    if target.platform.is_foreign:
        other = target.platform.machine
        if not foreign_folder(target.lock, python, other, workspace.cache).is_dir():
            yield f"{what} for {other}", size * (1 + copies)


def _installed_size(target: Target) -> int:
    return _FRAMEWORKS.get(target.framework.name if target.framework else "", _ENVIRONMENT)


def _size_of_environment(job: Job, place: EnvironmentPlace) -> int:
    """Return the bytes of its files that no other environment of the framework's release has."""
    if place.folder.is_dir():
        return 0
    whole, tag = _installed_size(job.target), job.target.framework_tag
    if not tag or not place.is_shared:
        return whole
    others = [
        path.name for path in shared_environments(job.workspace.cache) if f"-{tag}-" in path.name
    ]
    if any(name.partition("-")[0] == place.folder.name.partition("-")[0] for name in others):
        return _OF_ONE_LOCK
    return min(whole, _OF_ONE_PYTHON) if others else whole


def _are_unpacked(lock: Path, workspace: Workspace, name: str = "") -> bool:
    """Return True if the installer has the packages of a lock, or the one that is named."""
    pins: dict[str, str] = {
        canonicalize_name(pin.requirement.name): pin.version for pin in read_pins(lock)
    }
    only = canonicalize_name(name) if name else ""
    needed = {only: pins[only]} if only in pins else pins
    return all(_is_unpacked(each, version, workspace) for each, version in needed.items())


def _is_unpacked(name: str, version: str, workspace: Workspace) -> bool:
    """Return True if uv has unpacked a release of a package, of any index."""
    indexes: Iterable[str] = ("pypi", "index/*", "flat-index/*")
    patterns = (f"uv/wheels-v*/{index}/{name}/{version}-*" for index in indexes)
    return any(path.is_dir() for each in patterns for path in workspace.cache.glob(each))


def _size_of_toolchain(job: Job, copies: int) -> int:
    target, workspace = job.target, job.workspace
    provider, toolkit = target.provider, target.toolkit
    try:
        if provider == "debian":
            # It loads slowly, and no other provider needs it.
            from cuwheel.build.toolchains.from_debian import debian_folder  # noqa: PLC0415

            return 0 if debian_folder(toolkit, workspace).is_dir() else _DEBIAN_TOOLCHAIN
        if provider == "pypi":
            names = ("", target.platform.machine) if target.platform.is_foreign else ("",)
            folders = [pypi_folder(toolkit, workspace, name) for name in names]
            missing = sum(not folder.is_dir() for folder in folders)
            is_kept = _is_unpacked("nvidia-cuda-nvcc", toolkit.nvcc, workspace)
            return missing * _PYPI_TOOLCHAIN * (copies + (0 if is_kept else 1))
        return _size_of_packages(target, workspace)
    except CuwheelError:
        return 0  # the stage that installs from the lock raises it


def _size_of_compiler(target: Target, workspace: Workspace) -> int:
    # What unpacks Debian packages loads slowly, and most builds use the machine's compiler.
    from cuwheel.build.toolchains.pinned_compiler import compiler_folder  # noqa: PLC0415

    try:
        is_there = compiler_folder(target.host_compiler, workspace).is_dir()
    except CuwheelError:
        return 0  # as above
    return 0 if is_there else _COMPILER


def _size_of_packages(target: Target, workspace: Workspace) -> int:
    """Return the bytes of a toolchain whose lock names files with their sizes."""
    lock = toolchain_lock(target, workspace)
    name = f"toolchains/cuda{target.toolkit.tag}-{target.provider}"
    if lock is None or target.provider == "system":
        return 0
    if target.provider == "redist":
        from cuwheel.build.toolchains.from_redist import key_of_archives  # noqa: PLC0415 - as below

        archives = read_redist_lock(lock).for_machine(own_platform().machine)
        is_there = (workspace.cache / f"{name}-{key_of_archives(archives)}").is_dir()
        return 0 if is_there else disk_for_archives(archives, workspace.cache)
    # What installs conda packages is large, and no other provider needs it.
    from cuwheel.build.toolchains.conda.install import needed_disk  # noqa: PLC0415
    from cuwheel.build.toolchains.from_conda import key_of_lock  # noqa: PLC0415

    if (workspace.cache / f"{name}-{key_of_lock(lock)}").is_dir():
        return 0
    return needed_disk(read_conda_lock(lock).packages, workspace.cache)
