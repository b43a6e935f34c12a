"""Locked packages for another kind of machine: compiled and linked against, imported under QEMU."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from cuwheel.pypi.installed import install_verified
from cuwheel.pypi.uv import install_into
from cuwheel.system.whole_files import read_text
from cuwheel.toolchains.store import obtain

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.job import Job


_LAYOUT = 1  # raise it when a folder made by an older cuwheel must not be reused


def foreign_packages(job: Job, lock: Path) -> Path:
    """Make sure that the packages of a lock are there for the target's platform.

    Nothing of them runs: a folder is filled with wheels, whose hashes the lock has.

    Args:
        job: whose target is for another kind of machine.
        lock: requirements with hashes.

    Returns:
        The folder, as site-packages would be.

    Raises:
        LockError: the lock holds more than packages with their hashes.
        InstallError: one has no wheel for that machine, or can't be fetched.
        DamagedPackagesError: the cache holds damaged ones, and nothing may be downloaded.
    """
    workspace, machine = job.workspace, job.target.platform.machine
    identity = f"{_LAYOUT}\n{machine}\n{job.python.release}\n{read_text(lock)}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = workspace.cache / "environments" / f"{lock.stem}-{machine}-{key}"
    reads_all = not job.settings.reuse
    obtain(
        folder,
        partial(_make, job=job, lock=lock, final=folder),
        console=workspace.console,
        reads_all=reads_all,
        checked=None if reads_all else workspace.checked,
    )
    return folder


def _make(aside: Path, *, job: Job, lock: Path, final: Path) -> dict[str, str]:
    workspace = job.workspace
    log = workspace.shared_folder("logs") / f"{final.name}.log"

    def fill() -> Path:
        install_into(
            aside,
            lock,
            python=job.python.path,
            cache=workspace.cache,
            offline=job.settings.offline,
            log=log,
            console=workspace.console,
            machine=job.target.platform.machine,
        )
        return aside

    install_verified(
        fill,
        aside,
        lock,
        cache=workspace.cache,
        offline=job.settings.offline,
        console=workspace.console,
    )
    return {}
