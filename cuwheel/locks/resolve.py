"""Stage lock: resolve what `.in` files and recipes ask for, and pin it with hashes."""

from __future__ import annotations

import datetime
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.conda.environment_file import read_source
from cuwheel.conda.install import fetch_packages
from cuwheel.conda.lock_file import faults_of_conda_lock, read_conda_lock
from cuwheel.conda.mirrors import Mirrors
from cuwheel.conda.solve import solve
from cuwheel.conda.write import write_conda_lock
from cuwheel.errors import CuwheelError, HashMismatchError, LockError
from cuwheel.locks.jobs import COOLDOWN, CondaLockSpec
from cuwheel.locks.tool_environment import tool_python
from cuwheel.pypi.lock_file import faults_of_lock, read_pins, render
from cuwheel.pypi.uv import resolve
from cuwheel.system.files import sha256_of_file, write_atomically
from cuwheel.system.quantities import plural, show_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cuwheel.conda.records import CondaLock, CondaPackage
    from cuwheel.locks.jobs import PypiLockSpec
    from cuwheel.workspace.workspace import Workspace


def resolve_locks(
    jobs: tuple[PypiLockSpec | CondaLockSpec, ...],
    workspace: Workspace,
    *,
    cooldown: int = COOLDOWN,
    note: str = "",
) -> None:
    """Write each lock anew.

    A fresh release can be broken or malicious and is often found out within days, hence the
    cooldown.

    Args:
        jobs: which ones.
        workspace: its cache serves the resolver.
        cooldown: days.
        note: words for conda locks on where the channel's index came from.

    Raises:
        InstallError: the index can't be reached, or nothing satisfies the input.
        DownloadError: a conda channel can't be reached.
        LockError: nothing in the conda channel satisfies the input.
    """
    for job in jobs:
        with workspace.console.stage(f"lock {job.name}"):
            if isinstance(job, CondaLockSpec):
                _lock_conda(job, workspace, cooldown, note)
            else:
                _lock_pypi(job, workspace, cooldown)


def _lock_pypi(job: PypiLockSpec, workspace: Workspace, cooldown: int) -> None:
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    newest = f"{today - datetime.timedelta(days=cooldown)}T00:00:00Z"
    with tempfile.TemporaryDirectory() as folder:
        # The resolver gets one plain file, so that its output names no path of this machine.
        plain = Path(folder) / f"{job.lock.stem}.in"
        plain.write_text(job.input_text)
        body = resolve(
            plain,
            python=job.python,
            uploaded_before=newest,
            cache=workspace.cache,
            offline=False,
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


def _lock_conda(job: CondaLockSpec, workspace: Workspace, cooldown: int, note: str) -> None:
    source = read_source(job.source)
    python = tool_python("conda-lock", workspace)
    solved = solve(
        source,
        Mirrors.of(os.environ),
        cache=workspace.cache,
        cooldown=cooldown,
        note=note,
        retry_policy=workspace.retry_policy,
    )
    write_conda_lock(job.lock, solved, command=job.command, python=python, source=job.source)
    workspace.console.note(f"{job.lock.parent.name}/{job.lock.name}: {_describe(solved)}")


def verify_locks(
    jobs: tuple[CondaLockSpec, ...], workspace: Workspace, *, offline: bool = False
) -> tuple[CondaLock, ...]:
    """Download every file of conda locks, compare hashes and sizes, and note that in the locks.

    A hash or size that the channel's index didn't state is filled in.

    Returns:
        The locks as they are now.

    Raises:
        LockError: a lock is missing or was edited by hand.
        DownloadError: a file can't be fetched.
        HashMismatchError: a file isn't the one that the lock names; its lock stays as it is.
    """
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    done = []
    for job in jobs:
        with workspace.console.stage(f"verify {job.name}"):
            known = read_conda_lock(job.lock)
            python = tool_python("conda-lock", workspace, offline=offline)
            files = fetch_packages(
                known.packages,
                Mirrors.of(os.environ),
                cache=workspace.cache,
                console=workspace.console,
                offline=offline,
                title=f"the packages of {job.lock.parent.name}",
                retry_policy=workspace.retry_policy,
            )
            seen = tuple(
                _compare(package, file) for package, file in zip(known.packages, files, strict=True)
            )
            verified = replace(
                known, packages=seen, files=f"fetched {today}: every hash and size verified"
            )
            write_conda_lock(job.lock, verified, command=job.command, python=python)
            workspace.console.note(f"{job.lock.parent.name}: {_describe(verified)}, all as locked")
            done.append(verified)
    return tuple(done)


def _compare(package: CondaPackage, file: Path) -> CondaPackage:
    """The package with what its file really is; its hash was compared when it was fetched."""
    size = file.stat().st_size
    if package.size not in {0, size}:
        raise HashMismatchError(
            f"{package.file_name} is not the file that the lock names",
            why=f"it has {size} bytes, and the lock says {package.size}",
            fix="find out why the channel or the lock changed, then write the lock again",
        )
    return replace(package, size=size, sha256=package.sha256 or sha256_of_file(file))


def _describe(solved: CondaLock) -> str:
    return (
        f"{plural(len(solved.packages), 'package')}, {show_size(solved.download_size)} to download"
    )


def find_faults(jobs: Iterable[PypiLockSpec | CondaLockSpec]) -> dict[str, list[str]]:
    """What is wrong with each lock, by the command that writes it.

    Nothing is where it is there, unedited, hashed, and made from its input as it is now.
    """
    return {job.command: _faults(job) for job in jobs}


def raise_if_faulty(faults: Mapping[str, Sequence[str]]) -> None:
    """End a session that has found faults.

    Args:
        faults: as `find_faults` gives them.

    Raises:
        LockError: with every fault of every lock.
    """
    bad = {command: found for command, found in faults.items() if found}
    if bad:
        raise LockError(
            f"{len(bad)} of {len(faults)} locks can't be used",
            why="\n".join(
                f"{command.split('-- ')[1]}: {', '.join(found)}" for command, found in bad.items()
            ),
            fix=" && ".join(bad),
        )


def _faults(job: PypiLockSpec | CondaLockSpec) -> list[str]:
    try:
        if isinstance(job, CondaLockSpec):
            return faults_of_conda_lock(job.lock, job.source)
        return faults_of_lock(job.lock, job.input_text)
    except CuwheelError as error:
        return [error.what]
