"""Locked packages for another kind of machine: compiled and linked against, imported under QEMU."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cuwheel.base.system.pythons import Interpreter
from cuwheel.build.environments.installed import fill_folder
from cuwheel.build.environments.lock_file import pins_for
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.job import Job

_LAYOUT = 2  # raise it when a folder made by an older cuwheel must not be reused


def foreign_folder(lock: Path, python: Interpreter, machine: str, cache: Path) -> Path:
    """Return the folder of a lock's packages for another kind of machine: one for equal pins.

    Raises:
        OSError: the lock can't be read.
        InvalidRequirement: a line of it is no requirement.
    """
    pins = pins_for(lock, python.version, machine)
    identity = f"{_LAYOUT}\n{machine}\n{python.release}\n{pins}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    release = python.release.replace(".", "")
    return cache / "environments" / f"{machine}-cp{release}-{key}"


def foreign_packages(job: Job, lock: Path) -> Path:
    """Install the packages of a lock for the target's platform, if they are missing.

    Nothing of them runs: a folder is filled with wheels, whose hashes the lock has.

    Returns:
        The folder, with the layout of site-packages.

    Raises:
        LockError: the lock holds more than packages with their hashes.
        InstallError: one has no wheel for that machine, or can't be downloaded.
        ToolchainError: the cache holds damaged ones, and the build is offline.
    """
    workspace, machine = job.workspace, job.target.platform.machine
    folder = foreign_folder(lock, job.python, machine, workspace.cache)

    def make(aside: Path) -> dict[str, str]:
        fill_folder(
            aside,
            job.python.path,
            lock,
            workspace,
            offline=job.settings.offline,
            log=workspace.log_of(folder),
            machine=machine,
        )
        return {}

    obtain(folder, make, workspace, reads_all=not job.settings.reuse)
    return folder
