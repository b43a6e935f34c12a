"""The resolution of `.in` files' and recipes' requirements into locks with hashes."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from cuwheel.base.errors import CuwheelError, HashMismatchError, LockError
from cuwheel.base.system.files import sha256_of_file, write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.build.environments.lock_file import faults_of_lock, read_pins, render
from cuwheel.build.environments.uv import resolve
from cuwheel.build.locks.lock_jobs import COOLDOWN, LockSpec, refuse_questions
from cuwheel.build.locks.tool_environment import tool_python
from cuwheel.build.toolchains.conda.environment_file import read_source
from cuwheel.build.toolchains.conda.install import fetch_packages
from cuwheel.build.toolchains.conda.lock_file import (
    CondaPackage,
    faults_of_conda_lock,
    read_conda_lock,
)
from cuwheel.build.toolchains.conda.mirrors import Mirrors
from cuwheel.build.toolchains.conda.solve import solve
from cuwheel.build.toolchains.conda.write import write_conda_lock
from cuwheel.build.toolchains.debian.archives import configured_archives, missing_error
from cuwheel.build.toolchains.debian.install import missing_packages
from cuwheel.build.toolchains.debian.lock_file import (
    DebianPackage,
    faults_of_debian_lock,
    read_debian_lock,
    render_debian_lock,
)
from cuwheel.build.toolchains.debian.solve import solve as solve_debian
from cuwheel.build.toolchains.debian.source_file import read_source as read_debian_source
from cuwheel.build.toolchains.redist.install import fetch_archives
from cuwheel.build.toolchains.redist.lock_file import (
    RedistArchive,
    faults_of_redist_lock,
    read_redist_lock,
    render_redist_lock,
)
from cuwheel.build.toolchains.redist.manifest import lock_products
from cuwheel.build.workspace.workspace import Workspace

LockedFile: TypeAlias = CondaPackage | DebianPackage | RedistArchive
_LockedFile = TypeVar("_LockedFile", CondaPackage, RedistArchive)


def resolve_locks(
    jobs: tuple[LockSpec, ...],
    workspace: Workspace,
    *,
    cooldown: int = COOLDOWN,
    note: str = "",
) -> None:
    """Write each lock anew.

    Args:
        cooldown: days that a release has to be public: a broken or malicious one is often
            withdrawn within days. A suite of Debian's is taken as it is.
        note: about the channel or the manifests, for conda's and NVIDIA's locks.

    Raises:
        InstallError: the index can't be reached, or nothing satisfies the input.
        DownloadError: a conda channel, a Debian archive or a manifest can't be reached.
        LockError: nothing in the channel, the suite or the manifest satisfies the input, or the
            suite isn't signed.
        RecipeError: a recipe's draft leaves open what it requires.
    """
    refuse_questions(jobs)
    for job in jobs:
        with workspace.console.stage(f"lock {job.name}"):
            match job.kind:
                case "pypi":
                    _lock_pypi(job, workspace, cooldown)
                case "conda":
                    _lock_conda(job, workspace, cooldown, note)
                case "debian":
                    _lock_debian(job, workspace)
                case "redist":
                    _lock_archives(job, workspace, note)


def _lock_pypi(job: LockSpec, workspace: Workspace, cooldown: int) -> None:
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    # Without a cooldown what was uploaded today counts too.
    newest = f"{today - datetime.timedelta(days=cooldown or -1)}T00:00:00Z"
    with temporary_folder() as folder:
        # The resolver gets one plain file, so that its output names no path of this machine.
        source = folder / f"{job.lock.stem}.in"
        source.write_text(job.input_text)
        body = resolve(
            source,
            workspace,
            python=job.python,
            uploaded_before=newest,
        )
    text = render(
        body,
        input_text=job.input_text,
        command=job.command,
        cooldown=newest,
        pythons=job.pythons,
    )
    write_atomically(job.lock, text)
    workspace.console.note(f"{job.lock.name}: {len(read_pins(job.lock))} packages")


def _lock_conda(job: LockSpec, workspace: Workspace, cooldown: int, note: str) -> None:
    python = tool_python("conda-lock", workspace)
    solved = solve(
        read_source(job.file),
        Mirrors.of(workspace.environ),
        workspace,
        cooldown=cooldown,
        note=note,
    )
    write_conda_lock(job.lock, solved, command=job.command, python=python, source=job.file)
    packages = plural(len(solved.packages), "package")
    workspace.console.note(
        f"{job.lock.parent.name}/{job.lock.name}: {packages}, {show_size(solved.download_size)} to "
        "download"
    )


def _lock_debian(job: LockSpec, workspace: Workspace) -> None:
    archives = configured_archives(workspace.environ)
    solved = solve_debian(read_debian_source(job.file), archives, workspace)
    write_atomically(job.lock, render_debian_lock(solved, job.command))
    for architecture, packages in solved.packages.items():
        size = show_size(sum(package.size for package in packages))
        workspace.console.note(
            f"{job.lock.parent.name}/{job.lock.name}, {architecture}: "
            f"{plural(len(packages), 'package')}, {size} to download"
        )


def _lock_archives(job: LockSpec, workspace: Workspace, note: str) -> None:
    lock = lock_products(job.file, workspace, note=note)
    write_atomically(job.lock, render_redist_lock(lock, command=job.command))
    counts = Counter(archive.platform for archive in lock.archives)
    listed = ", ".join(f"{plural(counts[name], 'archive')} for {name}" for name in sorted(counts))
    workspace.console.note(f"{job.lock.parent.name}/{job.lock.name}: {listed}")


def verify_locks(
    jobs: tuple[LockSpec, ...], workspace: Workspace, *, offline: bool = False
) -> tuple[tuple[LockedFile, ...], ...]:
    """Download every file that locks name, compare hashes and sizes, and record that in the locks.

    A hash or size that the channel's index or the manifest lacked is filled in. The manifest of
    NVIDIA's archives is compared too, except offline. Debian's packages are only looked for: their
    hashes are from an index that Debian signed.

    Returns:
        The files of each lock.

    Raises:
        LockError: a lock is missing or was edited by hand.
        DownloadError: a file can't be downloaded.
        HashMismatchError: a file isn't the one that the lock names; its lock stays as it is.
    """
    locks: list[tuple[LockedFile, ...]] = []
    for job in jobs:
        with workspace.console.stage(f"verify {job.name}"):
            locks.append(_VERIFIERS[job.kind](job, workspace, offline=offline))
            size = show_size(sum(file.size for file in locks[-1]))
            files = plural(len(locks[-1]), "file")
            workspace.console.note(f"{job.lock.parent.name}: {files}, {size}, all as locked")
    return tuple(locks)


def _verified_today() -> str:
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    return f"fetched {today}: every hash and size verified"


def _verify_conda(job: LockSpec, workspace: Workspace, *, offline: bool) -> tuple[LockedFile, ...]:
    lock = read_conda_lock(job.lock)
    python = tool_python("conda-lock", workspace, offline=offline)
    files = fetch_packages(
        lock.packages,
        Mirrors.of(workspace.environ),
        workspace,
        offline=offline,
        title=f"the packages of {job.lock.parent.name}",
    )
    packages = tuple(map(_compare, lock.packages, files))
    lock = replace(lock, packages=packages, files=_verified_today())
    write_conda_lock(job.lock, lock, command=job.command, python=python)
    return packages


def _verify_archives(
    job: LockSpec, workspace: Workspace, *, offline: bool
) -> tuple[LockedFile, ...]:
    lock = read_redist_lock(job.lock)
    name = f"{job.lock.parent.name}/{job.lock.name}"
    if not offline:
        today = lock_products(job.file, workspace)
        locked = {archive.path: archive.sha256 for archive in lock.archives}
        if changed := [
            item.path for item in today.archives if locked.get(item.path) != item.sha256
        ]:
            raise HashMismatchError(
                f"{name} is not as NVIDIA's manifest",
                why=f"the manifest has another hash, or the lock none, of {', '.join(changed)}",
                fix="find out why the manifest or the lock changed, then write the lock again",
            )
        lock = replace(lock, manifest=today.manifest)
    files = fetch_archives(lock.archives, workspace, offline=offline, owner=f"the lock {name}")
    archives = tuple(map(_compare, lock.archives, files))
    lock = replace(lock, archives=archives, files=_verified_today())
    write_atomically(job.lock, render_redist_lock(lock, command=job.command))
    return archives


def _verify_debian(job: LockSpec, workspace: Workspace, *, offline: bool) -> tuple[LockedFile, ...]:
    archives = configured_archives(workspace.environ)
    listed = read_debian_lock(job.lock).packages.values()
    packages = tuple(dict.fromkeys(package for part in listed for package in part))
    missing = missing_packages(packages, workspace.cache, archives, offline=offline)
    if missing:
        raise missing_error(missing, archives)
    return packages


_VERIFIERS = {"conda": _verify_conda, "debian": _verify_debian, "redist": _verify_archives}


def _compare(package: _LockedFile, file: Path) -> _LockedFile:
    """Return a package with its file's size and hash; the download compared the hash."""
    size = file.stat().st_size
    if package.size not in {0, size}:
        raise HashMismatchError(
            f"{package.file_name} is not the file that the lock names",
            why=f"it has {size} bytes, and the lock says {package.size}",
            fix="find out why the channel or the lock changed, then write the lock again",
        )
    return replace(package, size=size, sha256=package.sha256 or sha256_of_file(file))


def find_faults(jobs: Iterable[LockSpec]) -> dict[str, list[str]]:
    """Return what is wrong with each lock, by the command that writes it.

    A sound lock exists, is unedited, has hashes, and was made from its present input.
    """
    return {job.command: _faults(job) for job in jobs}


def raise_if_faulty(faults: Mapping[str, Sequence[str]]) -> None:
    """Raise an error for faults of `find_faults`.

    Raises:
        LockError: with every fault of every lock.
    """
    bad = {command: lines for command, lines in faults.items() if lines}
    if bad:
        names = {command: command.split("-- ")[1] for command in bad}
        raise LockError(
            f"{len(bad)} of {len(faults)} locks can't be used",
            why="\n".join(f"{names[command]}: {', '.join(bad[command])}" for command in bad),
            fix=" && ".join(bad),
        )


def _faults(job: LockSpec) -> list[str]:
    try:
        match job.kind:
            case "pypi":
                return faults_of_lock(job.lock, job.input_text)
            case "conda":
                return faults_of_conda_lock(job.lock, job.file)
            case "debian":
                return faults_of_debian_lock(job.lock)
            case "redist":
                return faults_of_redist_lock(job.lock, job.file)
    except CuwheelError as error:
        return [error.what]
