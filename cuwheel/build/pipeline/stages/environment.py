"""Stage environment: a Python environment with exactly the locked build requirements."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path

from cuwheel.base.errors import InstallError
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.installed import fill_environment
from cuwheel.build.locks.lock_jobs import check_target_lock
from cuwheel.build.recipe.platform import own_platform
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.build.toolchains.cross.packages import foreign_packages
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment

_LAYOUT = 3  # raise it when an environment made by an older cuwheel must not be reused


def environment(job: Job) -> Environment:
    """Make the target's build environment, or check that it is still as it was made.

    It is shared between builds and named by its lock and interpreter.

    Raises:
        LockError: the target has no lock, or it doesn't match its input.
        InstallError: the locked packages can't be fetched, or the framework doesn't import.
        ToolchainError: the cache holds damaged ones, and nothing may be downloaded.
    """
    target, workspace = job.target, job.workspace
    check_target_lock(target)
    base = job.python
    identity = f"{_LAYOUT}\n{base.version}\n{base.abi}\n{base.path}\n{read_text(target.lock)}"
    key = hashlib.sha256(identity.encode()).hexdigest()
    # Programs that run here are the same for each platform of the wheel.
    short = replace(target, platform=own_platform()).id.replace(f"-{target.toolkit.tag}-", "-")
    folder = workspace.cache / "environments" / f"{short}-{key[:16]}"
    obtain(
        folder,
        partial(_make, job=job, final=folder),
        workspace,
        reads_all=not job.settings.reuse,
    )
    return Environment(
        python=folder / "bin" / "python",
        site_packages=folder / "lib" / f"python{base.release}" / "site-packages",
        fingerprint=key,
        base_python=base.path,
        base_version=base.version,
        foreign_packages=foreign_packages(job, target.lock) if target.platform.is_foreign else None,
    )


def _make(aside: Path, *, job: Job, final: Path) -> dict[str, str]:
    workspace = job.workspace
    log = workspace.shared_folder("logs") / f"{final.name}.log"
    lock, offline = job.target.lock, job.settings.offline
    fill_environment(aside, job.python, lock, workspace, offline=offline, log=log)
    _check_framework_imports(aside.resolve(), job)
    return {}


def _check_framework_imports(folder: Path, job: Job) -> None:
    """Import the framework in a sandbox, once, when the environment is made: that takes seconds.

    Its compiled modules become part of the environment, so each build starts faster.
    """
    framework, python = job.target.framework, folder / "bin" / "python"
    if framework is None or not job.may_run_code:
        return
    code = f"import {framework.name}"
    confinement = Confinement(
        sandbox=job.sandbox, environment=folder, base=job.python.path, folder=folder
    )
    command = confinement.command([python, "-I", "-W", "ignore", "-c", code])
    finished = run(command, env={}, check=False)
    remove_tree(folder / "tmp")  # of the sandbox
    if finished.status:
        lines = finished.output.strip().splitlines() or [f"status {finished.status}"]
        raise InstallError(
            f"{framework.name} {framework.version} can't be imported in its environment",
            why=lines[-1],
            fix=f"check that the lock has everything it needs; try it: {python} -c '{code}'",
        )
